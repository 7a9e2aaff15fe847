"""What is on the machine that a test may leave behind, and what of it is new.

Looks at the test world (``world``), in which only the tests' own things are.  Knows nothing of engines' contents but
their containers and volumes.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path

from tests.env import cgroups, firewall, linux, processes
from tests.env.engine import TestEngine

PATIENCE = 10.0
"""Seconds that what is ending may take: shims, veths, lazy unmounts."""


@dataclass(frozen=True)
class Snapshot:
    """Everything by name; the names of the fields are used in messages."""

    processes: Counter[str]
    mounts: Counter[str]
    namespaces: Counter[str]
    links: Counter[str]
    firewall_rules: Counter[str]
    cgroups: Counter[str]
    sysv_segments: Counter[str]
    files: Counter[str]
    containers: Counter[str] = field(default_factory=Counter)
    volumes: Counter[str] = field(default_factory=Counter)
    images: Counter[str] = field(default_factory=Counter)

    def left_since(self, before: Snapshot) -> list[str]:
        """One line for each thing that is here and was not before."""
        return [
            f"{kind.name.replace('_', ' ')}: {name}"
            for kind in fields(self)
            for name in (getattr(self, kind.name) - getattr(before, kind.name)).elements()
        ]


def take(world: Path, engine: TestEngine | None = None) -> Snapshot:
    """Look now.  ``engine``: its containers and volumes are looked at, too; its images belong to the session, and are
    gone with it."""
    return Snapshot(
        processes=Counter(_processes()),
        mounts=Counter(_mounts()),
        namespaces=Counter(namespaces(processes.pids())),
        links=Counter(links()),
        firewall_rules=Counter(rule for rule in firewall.rules() if _CNIS_OWN not in rule),
        cgroups=Counter(_cgroups()),
        sysv_segments=Counter(sysv_segments()),
        files=Counter(_files(world)),
        containers=Counter(_containers(engine) if engine else ()),
        volumes=Counter(_volumes(engine) if engine else ()),
    )


def left(before: Snapshot, world: Path, engine: TestEngine | None = None, patience: float = PATIENCE) -> list[str]:
    """What is new since ``before`` and stays so for ``patience`` seconds; empty as soon as nothing is."""
    deadline = time.monotonic() + patience
    while lines := take(world, engine).left_since(before):
        if time.monotonic() > deadline:
            return lines
        time.sleep(0.05)
    return []


def _processes() -> list[str]:
    """All but ourselves and those that we run in: ``PID command``."""
    not_ours = {os.getpid(), *processes.ancestors(os.getpid())}
    found = []
    for pid in processes.pids():
        if pid not in not_ours and processes.parent(pid) > 0:
            words = "(ended, not reaped)" if processes.is_zombie(pid) else processes.command_line(pid)
            found.append(f"{pid} {words[:200]}")
    return found


def namespaces(pids: Iterable[int]) -> set[str]:
    """The namespaces that these processes are in, and those that a mount keeps, as the kernel names them."""
    found = {root for _, fstype, root, _ in linux.mounts() if fstype == "nsfs"}
    for pid in pids:
        with contextlib.suppress(OSError):  # it ended
            found |= {os.readlink(link) for link in Path(f"/proc/{pid}/ns").iterdir()}
    return found


def links() -> list[str]:
    """Network links of this namespace."""
    return os.listdir("/sys/class/net")


def _mounts() -> list[str]:
    """Mounts, without an engine's pin of the namespace that it runs in: made for the first pod in it, and kept."""
    return [f"{point} ({fstype})" for point, fstype, *_ in linux.mounts() if not point.endswith(_ENGINES_NAMESPACE)]


def _cgroups() -> list[str]:
    """Cgroups of all hierarchies, without those that the world and engines keep for their whole life."""
    return [str(cgroup) for cgroup in cgroups.below_mounts() if cgroup.name not in {"init", "docker"}]


def sysv_segments() -> list[str]:
    """SysV shared memory, semaphores and queues of this namespace.  Rule: proc_sysvipc(5)."""
    found: list[str] = []
    for kind in ("shm", "sem", "msg"):
        lines = Path("/proc/sysvipc", kind).read_text().splitlines()[1:]
        found += [f"{kind} id {line.split()[1]}" for line in lines]
    return found


_ENGINES_OWN = ("/run/containerd", "/run/docker", "/run/xtables.lock")
"""What engines keep in /run however they are told to keep it elsewhere; containers' parts show as processes."""
_ENGINES_KEY = {"/etc/docker", "/etc/docker/key.json"}
"""What dockerd 20.10 makes at its first start, unless the machine has had one that ran."""


_CNIS_OWN = "CNI-HOSTPORT-"
"""How CNI's portmap names the chains that it makes for its first pod and keeps; each pod's has another name."""
_ENGINES_NAMESPACE = "/exec/netns/default"


def _files(world: Path) -> list[str]:
    """Files in /run and what was written to /etc and /var/lib (the overlays' upper layers)."""
    tops = {"/run": Path("/run"), "/etc": world / "layers/etc/upper", "/var/lib": world / "layers/var/lib/upper"}
    found = []
    for shown, top in tops.items():
        for folder, folders, names in os.walk(top):
            inside = os.path.relpath(folder, top)
            found += [os.path.normpath(os.path.join(shown, inside, name)) for name in (*folders, *names)]
    return [name for name in found if not name.startswith(_ENGINES_OWN) and name not in _ENGINES_KEY]


def _containers(engine: TestEngine) -> list[str]:
    return [f"{c['Id'][:12]} {' '.join(c['Names'])}" for c in engine.api.call("GET", "/containers/json", {"all": "1"})]


def _volumes(engine: TestEngine) -> list[str]:
    return [str(volume["Name"]) for volume in engine.api.call("GET", "/volumes")["Volumes"] or ()]
