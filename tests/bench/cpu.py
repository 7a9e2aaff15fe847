"""Processor time of crishim and of the engine, by cgroups made for each: nothing of a short-lived child is lost.

The engine's holds dockerd, containerd, the shims and every runc; containers are in cgroups of their own and not in it.
Rule: cgroup-v1/cpuacct.rst (cpuacct.usage, nanoseconds) and cgroup-v2.rst (cpu.stat, usage_usec) of the kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from crishim.cri.v1 import runtime_pb2 as cri
from tests.bench.figures import Figure, summarize
from tests.bench.serve import Served
from tests.bench.verbs import MUST, container, pod, raw_life
from tests.env import cgroups, linux, processes
from tests.env.engine import TestEngine

WARM = 5
"""Pods before the first that counts."""


class Account:
    """What the processes in one cgroup have used."""

    def __init__(self, cgroup: Path) -> None:
        self._cgroup = cgroup
        self._file = next(file for file in (cgroup / "cpuacct.usage", cgroup / "cpu.stat") if file.exists())

    def add(self, pid: int) -> None:
        """Move a process and all its descendants here; what they start from now on is here, too."""
        for one in (pid, *processes.descendants(pid)):
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                (self._cgroup / "cgroup.procs").write_text(str(one))

    def used(self) -> float:
        """Milliseconds, user and system, since this cgroup was made."""
        text = self._file.read_text()
        if self._file.name == "cpuacct.usage":
            return int(text) / 1e6
        return int(text.split()[text.split().index("usage_usec") + 1]) / 1e3


@contextlib.contextmanager
def account(name: str, pid: int) -> Iterator[Account]:
    """A new cgroup with the process ``pid`` in it; at the end its processes go back to the root.

    In a test world, whose cgroups are its own.  Raises RuntimeError where no hierarchy counts processor time.
    """
    root = _hierarchy()
    cgroup = root / f"bench-{name}"
    cgroup.mkdir()
    back = root / cgroups.LEAF if (root / cgroups.LEAF).exists() else root
    try:
        made = Account(cgroup)
        made.add(pid)
        yield made
    finally:
        for left in cgroups.pids(cgroup):
            with contextlib.suppress(ProcessLookupError):
                (back / "cgroup.procs").write_text(str(left))
        cgroups.remove_tree(cgroup)


def _hierarchy() -> Path:
    """Where the kernel counts processor time by cgroup."""
    mounts = [(Path(point), fstype, options.split(",")) for point, fstype, _, options in linux.mounts()]
    for point, fstype, options in mounts:
        if fstype == "cgroup" and "cpuacct" in options:
            return point
    for point, fstype, _ in mounts:
        if fstype == "cgroup2" and (point / "cpu.stat").exists():
            return point
    raise RuntimeError("no cgroup hierarchy counts processor time")


def measure(served: Served, engine: TestEngine, image: str, rounds: int) -> list[Figure]:
    """Processor time of a pod's life with one container, verb by verb and in all; beside it, of the same life by the
    engine's calls alone.

    What both do after they have answered counts for the verb after it, and for the whole.
    """
    raw = []
    with account("crishim", served.pid) as ours, account("engine", engine.pid) as theirs:
        used: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for number in range(WARM + rounds):
            began = (ours.used(), theirs.used())
            for verb, mine, others in _life(served, image, number, ours, theirs):
                used[verb].append((mine, others))
            used[_WHOLE].append((ours.used() - began[0], theirs.used() - began[1]))
            before = theirs.used()
            asyncio.run(raw_life(str(engine.socket), image, number))
            raw.append(theirs.used() - before)
    figures = [summarize(f"{_WHOLE} without crishim: CPU of the engine", raw[WARM:])]
    for verb in (*MUST, _WHOLE):
        for index, who in enumerate(("crishim", "the engine")):
            figures.append(summarize(f"{verb}: CPU of {who}", [pair[index] for pair in used[verb][WARM:]]))
    return figures


_WHOLE = "a pod's life"


def _life(
    served: Served, image: str, number: int, ours: Account, theirs: Account
) -> Iterator[tuple[str, float, float]]:
    """One pod's seven verbs: each with what it cost us and the engine."""
    config = pod(800_000 + number)
    ids: dict[str, str] = {}

    def requests() -> Iterator[tuple[str, object]]:
        yield "RunPodSandbox", cri.RunPodSandboxRequest(config=config)
        sandbox = ids["pod_sandbox_id"]
        wanted = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container(image), sandbox_config=config)
        yield "CreateContainer", wanted
        made = ids["container_id"]
        yield "StartContainer", cri.StartContainerRequest(container_id=made)
        yield "StopContainer", cri.StopContainerRequest(container_id=made)
        yield "RemoveContainer", cri.RemoveContainerRequest(container_id=made)
        yield "StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=sandbox)
        yield "RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox)

    for verb, request in requests():
        before = ours.used(), theirs.used()
        answer = getattr(served.client, verb)(request)
        ids |= {field.name: value for field, value in answer.ListFields()}
        yield verb, ours.used() - before[0], theirs.used() - before[1]
