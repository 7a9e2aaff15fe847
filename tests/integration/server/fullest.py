"""The container that asks for everything and the one that asks for nothing, made and read back from the kernel.

Functions, because the engine that they are made on may be any: one whose own defaults are hostile, too.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from crishim.cri.v1 import runtime_pb2 as pb
from tests.env.http_api import EngineApi
from tests.env.images import BUSYBOX_REF
from tests.integration.server.inside import (
    DEFAULT_CAPABILITIES,
    cgroup_file,
    environment_of,
    held,
    limits,
    mounts_of,
    status_of,
)
from tests.integration.server.pods import SLEEP, Pod, container_status, linux, make_container, pid_of

MOUNTS, VARIABLES, RULES = 200, 500, 1000
MIB = 1 << 20
_SLAVE = pb.PROPAGATION_HOST_TO_CONTAINER


def make_fullest(folder: Path, name: str = "fullest") -> pb.ContainerConfig:
    """A container with every field that any engine has; `folder` gets what it mounts."""
    return make_container(
        name,
        image=pb.ImageSpec(image=BUSYBOX_REF, user_specified_image="shown:1", annotations={"hint": "1"}),
        command=["sh", "-c"],
        args=[SLEEP[2], "arg 0", ""],
        working_dir="/made/dir",
        envs=[pb.KeyValue(key=f"V{i}", value=_value(i)) for i in range(VARIABLES)],
        mounts=_mounts(folder),
        devices=[
            pb.Device(host_path="/dev/full", container_path="/dev/renamed", permissions="rw"),
            pb.Device(host_path="/dev/zero", container_path="/dev/other/zero", permissions="r"),
        ],
        labels={"annotation.x": "a label", "app": "web"},
        annotations={"x": "an annotation", "long": "y" * 100_000},
        stdin=True,
        stop_signal=pb.SIGNAL_SIGTERM,
        linux=linux(
            resources=pb.LinuxContainerResources(
                cpu_period=50_000,
                cpu_quota=25_000,
                cpu_shares=512,
                memory_limit_in_bytes=64 * MIB,
                memory_swap_limit_in_bytes=64 * MIB,
                oom_score_adj=500,
                cpuset_cpus="0",
                cpuset_mems="0",
                hugepage_limits=[pb.HugepageLimit(page_size="2MB"), pb.HugepageLimit(page_size="1GB")],
            ),
            capabilities=pb.Capability(add_capabilities=["NET_ADMIN"], drop_capabilities=["KILL"]),
            namespace_options=pb.NamespaceOption(pid=pb.CONTAINER),
            run_as_user=pb.Int64Value(value=1234),
            run_as_group=pb.Int64Value(value=99),
            readonly_rootfs=True,
            supplemental_groups=[7, 8],
            no_new_privs=True,
            masked_paths=["/proc/meminfo", "/proc/acpi/no-such"],
            readonly_paths=["/proc/sys"],
            seccomp=pb.SecurityProfile(
                profile_type=pb.SecurityProfile.Localhost, localhost_ref=str(_write_profile(folder))
            ),
        ),
    )


def _value(number: int) -> bytes:
    odd = [b"", b"a=b", "Ä\n€".encode(), b"x" * 10_000]
    return odd[number] if number < len(odd) else str(number).encode()


def _mounts(folder: Path) -> list[pb.Mount]:
    """200: files and folders, one through a link, read-only or not, with two kinds of propagation."""
    made = []
    for number in range(MOUNTS):
        source = folder / f"m{number}"
        if number % 2:
            source.write_text(f"{number}\n")
        else:
            source.mkdir()
        made.append(
            pb.Mount(
                host_path=str(source),
                container_path=f"/m/{number}",
                readonly=number % 3 == 0,
                propagation=_SLAVE if number % 5 == 0 else pb.PROPAGATION_PRIVATE,
            )
        )
    link = folder / "link"
    link.symlink_to(folder / "m1")
    made[1].host_path = str(link)
    return made


def _write_profile(folder: Path) -> Path:
    """A profile of a thousand rules; the last one denies a call, so that one can tell whether it is in force."""
    rules: list[dict[str, Any]] = [
        {"names": ["personality"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 0, "value": n, "op": "SCMP_CMP_EQ"}]}
        for n in range(1, RULES)
    ]
    rules.append({"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"})
    path = folder / "profile.json"
    path.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}))
    return path


def check_fullest(pod: Pod, api: EngineApi, folder: Path) -> tuple[str, pb.ContainerConfig]:
    """Start the fullest container and compare what the kernel has with what was asked. Returns its id and config."""
    folder.mkdir()
    config = make_fullest(folder)
    container_id = pod.start(config)
    pid = pid_of(api, container_id)
    _check_process(api, container_id, config)
    environment = environment_of(pid)
    assert {env.key: env.value for env in config.envs}.items() <= environment.items()
    assert os.readlink(f"/proc/{pid}/cwd") == "/made/dir"
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    assert words == [word.encode() for word in (*config.command, *config.args)]
    _check_mounts(pid, config)
    _check_devices(pid, api, container_id)
    assert limits(api, container_id) == (str(64 * MIB), "25000", "512", "0")
    assert cgroup_file(api, container_id, "cpu", "cpu.cfs_period_us", "cpu.max").split()[-1] == "50000"
    assert cgroup_file(api, container_id, "cpuset", "cpuset.mems", "cpuset.mems.effective") == "0"
    assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "500\n"
    return container_id, config


def _check_process(api: EngineApi, container_id: str, config: pb.ContainerConfig) -> None:
    status = status_of(api, container_id)
    assert status["Uid"].split() == ["1234"] * 4
    assert status["Gid"].split() == ["99"] * 4
    assert {int(group) for group in status["Groups"].split()} - {99} == {7, 8}
    assert held(status["CapBnd"]) == DEFAULT_CAPABILITIES - {"KILL"} | {"NET_ADMIN"}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def _check_mounts(pid: int, config: pb.ContainerConfig) -> None:
    found = mounts_of(pid)
    assert "ro" in found["/"].options
    for mount in config.mounts:
        shown = found[mount.container_path]
        assert shown.root.endswith(os.path.realpath(mount.host_path).rpartition("/")[2]), mount
        assert ("ro" in shown.options) is mount.readonly, mount
        assert ("master" in shown.propagation) is (mount.propagation == _SLAVE), mount
        assert "shared" not in shown.propagation, mount
    masked = {point for point in found if point.startswith("/proc/")}
    assert masked == {"/proc/meminfo", "/proc/sys"}
    assert "ro" in found["/proc/sys"].options
    assert int(Path(f"/proc/{pid}/root/dev/shm").stat().st_mode & 0o7777) == 0o1777


def _check_devices(pid: int, api: EngineApi, container_id: str) -> None:
    for path, source in (("renamed", "/dev/full"), ("other/zero", "/dev/zero")):
        found = Path(f"/proc/{pid}/root/dev/{path}").stat()
        assert stat.S_ISCHR(found.st_mode)
        assert found.st_rdev == os.stat(source).st_rdev, path
    if Path("/sys/fs/cgroup/devices").exists():
        allowed = cgroup_file(api, container_id, "devices", "devices.list").splitlines()
        assert "a *:* rwm" not in allowed, "every device of the node"


def check_told(pod: Pod, container_id: str, config: pb.ContainerConfig) -> None:
    """What status says of the fullest container is what was asked and is in force."""
    told = container_status(pod.server, container_id)
    asked = config.linux.resources
    assert list(told.mounts) == list(config.mounts)
    assert dict(told.labels) == dict(config.labels)
    assert dict(told.annotations) == dict(config.annotations)
    assert (told.image.image, dict(told.image.annotations)) == ("shown:1", {"hint": "1"})
    user = told.user.linux
    assert (user.uid, user.gid, set(user.supplemental_groups) - {99}) == (1234, 99, {7, 8})
    in_force = told.resources.linux
    for name in ("cpu_period", "cpu_quota", "cpu_shares", "memory_limit_in_bytes", "oom_score_adj"):
        assert getattr(in_force, name) == getattr(asked, name), name
    for name in ("cpuset_cpus", "cpuset_mems", "memory_swap_limit_in_bytes"):
        assert getattr(in_force, name) == getattr(asked, name), name


def check_plain(pod: Pod, api: EngineApi, *, processes: str = "max", shm_size: int = 64 * MIB) -> None:
    """Start a container that asks for nothing; what the kernel has of it is CRI's defaults, not the engine's.

    `processes`: how many it may have by the server's configuration; `shm_size`: bytes of /dev/shm by it.
    """
    container_id = pod.start(make_container("plain", linux=None))
    pid = pid_of(api, container_id)
    status = status_of(api, container_id)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("0", "0")
    assert status["Uid"].split() == status["Gid"].split() == ["0"] * 4
    assert held(status["CapEff"]) == held(status["CapBnd"]) == DEFAULT_CAPABILITIES
    assert held(status["CapAmb"]) == set()
    found = mounts_of(pid)
    assert "rw" in found["/"].options
    assert [point for point in found if point.startswith("/proc/")] == [], "nothing is masked"
    memory, quota, shares, cpus = limits(api, container_id)
    assert (memory == "max" or int(memory) > 1 << 60, quota in ("-1", "max")) == (True, True)
    assert shares in ("1024", "100")
    assert cpus == cgroup_file(api, pod.id, "cpuset", "cpuset.cpus", "cpuset.cpus.effective")
    assert cgroup_file(api, container_id, "pids", "pids.max") == processes
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    assert words == [word.encode() for word in SLEEP], "no init of the engine's in front"
    size = os.statvfs(f"/proc/{pid}/root/dev/shm")
    assert size.f_blocks * size.f_frsize == shm_size
    sandbox = pid_of(api, pod.id)
    for kind in ("net", "ipc", "pid"):
        assert os.readlink(f"/proc/{pid}/ns/{kind}") == os.readlink(f"/proc/{sandbox}/ns/{kind}"), kind
    assert container_status(pod.server, container_id).resources.linux.memory_limit_in_bytes == 0
