"""What the kernel says of a container: /proc, its mounts and its cgroup; never the engine's echo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.env.http_api import EngineApi
from tests.integration.server.pods import pid_of

CAPABILITIES = {"CHOWN": 0, "KILL": 5, "NET_BIND_SERVICE": 10, "NET_ADMIN": 12, "NET_RAW": 13, "SYS_ADMIN": 21}
DEFAULT_CAPABILITIES = {"CHOWN", "KILL", "NET_BIND_SERVICE", "NET_RAW"}
"""Of those above, what engines give to a container that asks for nothing."""


def status_of(api: EngineApi, container_id: str) -> Mapping[str, str]:
    """/proc/PID/status of a container's first process."""
    lines = Path(f"/proc/{pid_of(api, container_id)}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def held(mask: str) -> set[str]:
    """Those of CAPABILITIES that are in a mask of /proc/PID/status."""
    return {name for name, number in CAPABILITIES.items() if int(mask, 16) >> number & 1}


@dataclass(frozen=True)
class MountPoint:
    """A line of mountinfo."""

    root: str
    """What of its file system is shown."""
    options: frozenset[str]
    propagation: frozenset[str]
    """`shared`, `master`, or nothing for private."""
    kind: str


def mounts_of(pid: int) -> Mapping[str, MountPoint]:
    """What is mounted where in a process's view; of several at one place the topmost."""
    found = {}
    for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        _, _, _, root, point, options, *tags = before.split(" ")
        propagation = frozenset(tag.partition(":")[0] for tag in tags)
        found[point] = MountPoint(root, frozenset(options.split(",")), propagation, after.split(" ")[0])
    return found


def environment_of(pid: int) -> dict[str, bytes]:
    """The environment with which a process began."""
    entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")[:-1]
    return {name.decode(): value for name, _, value in (entry.partition(b"=") for entry in entries)}


def cgroup_file(api: EngineApi, container_id: str, controller: str, *names: str) -> str:
    """The first of the files `names` (of cgroup v1 and v2) of a container's cgroup."""
    for line in Path(f"/proc/{pid_of(api, container_id)}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") or not controllers:
            mount = Path("/sys/fs/cgroup", controllers if Path("/sys/fs/cgroup", controllers).exists() else controller)
            for name in names:
                if (file := mount / path.lstrip("/") / name).exists():
                    return file.read_text().strip()
    raise AssertionError(f"no {names} of {container_id[:13]}")


def limits(api: EngineApi, container_id: str) -> tuple[str, str, str, str]:
    """Memory, quota, shares and CPUs in force, in the words of cgroup v1."""

    def read(controller: str, *names: str) -> str:
        return cgroup_file(api, container_id, controller, *names)

    return (
        read("memory", "memory.limit_in_bytes", "memory.max"),
        read("cpu", "cpu.cfs_quota_us", "cpu.max").split()[0],
        read("cpu", "cpu.shares", "cpu.weight"),
        read("cpuset", "cpuset.cpus", "cpuset.cpus.effective"),
    )
