"""What a test world, or a command, left on the machine around it, by name: it must be nothing.

Looked at from outside, by the process that makes the world (``world.run``), so at the end of all that tests; and, by
``python -m tests.env.machine -- COMMAND ...``, around what is done outside worlds: installing, building of tools,
engines and virtual machines.  Other programs run on a machine meanwhile: of processes those are ours that carry the
world's mark in their environment, of cgroups and temporary files those that have names like ours; all else is compared
as it is.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tests.env import cgroups, firewall, linux, processes, tidiness
from tests.env.cache import ROOT
from tests.env.http_api import EngineApi, EngineApiError
from tests.env.tidiness import Snapshot

PATIENCE = 5.0
"""Seconds that what is ending may take."""
ENGINE = Path("/var/run/docker.sock")
"""The machine's engine.  It is asked only while its pid file is there: asking would start one that waits for it."""
OURS = ("crishim-", "cri-test", "docker-", "containerd", "runc-", "pytest-of-", "mmdebstrap", "pip-", "go-build")
"""How names begin that tests, engines, judges and builders give to temporary files."""
PLACES = ("/", "/opt", "/opt/cni/bin", "/srv", "/usr/local", "/usr/local/bin", "/usr/lib/cni", "~")
"""Folders in which nothing new may be; a world has its own /etc, /var/lib, /run and /dev/shm."""
JUDGED = "CRISHIM_TEST_JUDGED"
"""Environment variable by which the processes of a command are known that is judged."""
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


def left(before: Snapshot, mark: str, patience: float | None = None) -> list[str]:
    """What is new since ``before`` and stays so for ``patience`` seconds (None: ``PATIENCE``); empty as soon as nothing
    is."""
    deadline = time.monotonic() + (PATIENCE if patience is None else patience)
    while lines := take(mark).left_since(before):
        if time.monotonic() > deadline:
            return lines
        time.sleep(0.1)
    return []


def judged(mark: str, work: Callable[[], int]) -> int:
    """The exit status of ``work``; what it left on the machine is named, and with CI=true makes a status of 0 one of 1
    (elsewhere it may be somebody else's)."""
    before, listed = take(mark), shutil.which("nft")
    status = work()
    if shutil.which("nft") != listed:  # installed meanwhile; it calls the same rules by other words
        before = replace(before, firewall_rules=take(mark).firewall_rules)
    if lines := [line for line in left(before, mark) if not _installed(line)]:
        print("left on the machine meanwhile:\n  " + "\n  ".join(lines), file=sys.stderr, flush=True)
        return status or int(os.environ.get("CI") == "true")
    return status


def _installed(line: str) -> bool:
    """Whether it is a file that came with a package: those are asked for, and stay."""
    kind, _, name = line.partition(": ")
    if kind != "files" or shutil.which("dpkg-query") is None:
        return False
    return subprocess.run(["dpkg-query", "--search", name], capture_output=True, check=False).returncode == 0


def main(arguments: Sequence[str]) -> int:
    """Run a command and judge what it leaves.  Exit status: its own, or 1 as in ``judged``; 2 for wrong usage."""
    command = list(arguments[1:] if arguments[:1] == ["--"] else arguments)
    if not command:
        print("usage: python -m tests.env.machine -- COMMAND ...", file=sys.stderr)
        return 2
    environment = os.environ | {JUDGED: str(os.getpid())}
    mark = f"{JUDGED}={os.getpid()}"
    return judged(mark, lambda: subprocess.run(command, env=environment, check=False).returncode)


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
