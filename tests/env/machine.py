"""What a test world left on the machine around it, by name: it must be nothing.

Looked at from outside, by the process that makes the world (``world.run``), so at the end of all that tests.  Other
programs run on a machine meanwhile: of processes those are ours that carry the world's mark in their environment, of
cgroups and temporary files those that have names like ours; all else is compared as it is.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.env import cgroups, firewall, linux, processes, tidiness
from tests.env.cache import ROOT
from tests.env.http_api import EngineApi, EngineApiError
from tests.env.tidiness import Snapshot

PATIENCE = 5.0
"""Seconds that what is ending may take."""
ENGINE = Path("/var/run/docker.sock")
"""The machine's engine.  It is asked only while its pid file is there: asking would start one that waits for it."""
OURS = ("crishim-", "cri-test", "docker-", "containerd", "runc-", "pytest-of-")
"""How names begin that tests, engines and judges give to temporary files."""
PLACES = ("/", "/opt", "/opt/cni/bin", "/srv", "/usr/local", "/usr/local/bin", "/usr/lib/cni", "~")
"""Folders in which nothing new may be; a world has its own /etc, /var/lib, /run and /dev/shm."""
WORLD = "crishim-test-"
"""How the name of a world's folder and cgroups begins: each is removed with its world, or by the next."""
_CGROUP = re.compile(
    r"(docker|kubepods|crishim|cri|bench|conformance)\b|[0-9a-f]{64}$|(docker|cri)-[0-9a-f]{64}\.scope$"
)
_MADE = {".git", ".cache", ".venv", "build", "dist", "__pycache__"}
_MADE_ENDS = ("_cache", ".egg-info", ".hypothesis")
"""What tools keep in the checkout: what .gitignore names, and git."""


def take(mark: str) -> Snapshot:
    """Look now.  ``mark``: ``NAME=VALUE``, which all processes of the world have in their environment."""
    ours = {pid: processes.command_line(pid) for pid in processes.pids() if mark in _environment(pid)}
    return Snapshot(
        processes=Counter(f"{pid} {words[:200]}" for pid, words in ours.items()),
        mounts=Counter(f"{point} ({fstype})" for point, fstype, *_ in linux.mounts()),
        namespaces=Counter(tidiness.namespaces(ours)),
        links=Counter(tidiness.links()),
        firewall_rules=Counter(firewall.rules()),
        cgroups=Counter(str(cgroup) for cgroup in cgroups.below_mounts() if _ours(cgroup)),
        sysv_segments=Counter(tidiness.sysv_segments()),
        files=Counter(_files()),
        images=Counter(_images()),
    )


def left(before: Snapshot, mark: str, patience: float = PATIENCE) -> list[str]:
    """What is new since ``before`` and stays so for ``patience`` seconds; empty as soon as nothing is."""
    deadline = time.monotonic() + patience
    while lines := take(mark).left_since(before):
        if time.monotonic() > deadline:
            return lines
        time.sleep(0.1)
    return []


def judged(mark: str, work: Callable[[], int]) -> int:
    """The exit status of ``work``; what it left on the machine is named, and with CI=true makes a status of 0 one of 1
    (elsewhere it may be somebody else's)."""
    before = take(mark)
    status = work()
    if lines := left(before, mark):
        print("left on the machine meanwhile:\n  " + "\n  ".join(lines), file=sys.stderr, flush=True)
        return status or int(os.environ.get("CI") == "true")
    return status


def _environment(pid: int) -> list[str]:
    with contextlib.suppress(OSError):  # it ended, or is not ours to see
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    return []


def _ours(cgroup: Path) -> bool:
    """Whether a cgroup is named as engines, kubelets or we name them; what is in another test world is that one's."""
    worlds = [part for part in cgroup.parts if part.startswith(WORLD) and part != cgroups.EVACUATED]
    return not worlds and bool(_CGROUP.match(cgroup.name))


def _files() -> Iterator[str]:
    for place in PLACES:
        with contextlib.suppress(OSError):
            yield from (str(path) for path in Path(place).expanduser().iterdir())
    for place in {"/tmp", "/var/tmp", os.environ.get("TMPDIR", "/tmp")}:
        names = [name for name in os.listdir(place) if name.startswith(OURS)]
        yield from (os.path.join(place, name) for name in names if not name.startswith(WORLD))
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in _MADE and not name.endswith(_MADE_ENDS)]
        yield from (os.path.join(folder, name) for name in (*folders, *names))


def _images() -> Iterator[str]:
    """The images of the machine's engine, if it runs."""
    if not ENGINE.with_suffix(".pid").exists():
        return
    with contextlib.suppress(OSError, EngineApiError):
        for image in EngineApi(ENGINE, timeout=5).call("GET", "/images/json"):
            yield f"{image['Id']} {' '.join(sorted(image['RepoTags'] or ()))}"
