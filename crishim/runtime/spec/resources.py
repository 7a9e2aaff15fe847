"""Limits: from CRI's cgroup terms to the engine's."""

from __future__ import annotations

import re

from crishim.engine.values import EngineResources
from crishim.errors import InvalidArgument, UnsupportedField
from crishim.model import LinuxContainerResources
from crishim.runtime.spec.ways import Beyond, Ways

_KEY = re.compile(r"[a-z0-9_]+(\.[A-Za-z0-9_-]+)+")
_CPUSET = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_NO_END = 2**63 - 1
_RANGES = {
    # Of the kernel's (cgroup v1, cpu.shares; cfs_period_us): an OCI runtime misses the first at the start only.
    "cpu_shares": (0, 2, 262_144),
    "cpu_period": (0, 1_000, 1_000_000),
    "cpu_quota": (-1, 1_000, _NO_END),
    "memory_limit_in_bytes": (0, 1, _NO_END),
    "memory_swap_limit_in_bytes": (-1, 1, _NO_END),
}
"""Of each number: the lowest word for none, and the lowest and the highest that are numbers."""


def check_resources(
    asked: LinuxContainerResources, field: str, ways: Ways | None = None, *, memory_in_force: int = 0
) -> None:
    """Raise InvalidArgument for impossible values, UnsupportedField for what neither engine nor front can carry.

    `ways`: what the front carries; None: there is none. `memory_in_force`: bytes of the limit that an update which
    names none leaves; 0: there is none.
    """
    for name, (none, lowest, highest) in _RANGES.items():
        if not (none <= (value := getattr(asked, name)) <= 0 or lowest <= value <= highest):
            words = f"less than {none}" if value < none else f"not within {lowest} to {highest}"
            raise InvalidArgument(f"{value} is {words}", field=f"{field}.{name}")
    if not -1000 <= asked.oom_score_adj <= 1000:
        raise InvalidArgument(f"{asked.oom_score_adj} is not within −1000 to 1000", field=f"{field}.oom_score_adj")
    for name in ("cpuset_cpus", "cpuset_mems"):
        if (text := getattr(asked, name)) and not _CPUSET.fullmatch(text):
            raise InvalidArgument(f"{text!r} is not a list such as 0-2,7", field=f"{field}.{name}")
    swap, memory = asked.memory_swap_limit_in_bytes, asked.memory_limit_in_bytes or memory_in_force
    if swap > 0 and not memory:
        raise InvalidArgument("a swap limit needs a memory limit", field=f"{field}.memory_swap_limit_in_bytes")
    if 0 < swap < memory:
        raise InvalidArgument(
            f"{swap} is less than the memory limit {memory}, which it includes",
            field=f"{field}.memory_swap_limit_in_bytes",
        )
    _check_files(asked, field, ways or Ways())


def _check_files(asked: LinuxContainerResources, field: str, ways: Ways) -> None:
    """What is a file of the cgroup and no more."""
    # A kubelet sends 0 for every size the node has: nothing may be used, which is what no limit of ours comes to.
    for i, hugepages in enumerate(asked.hugepage_limits):
        if hugepages.limit:
            ways.take(Beyond.HUGEPAGES, f"{field}.hugepage_limits[{i}]")
            if hugepages.page_size not in ways.hugepage_sizes:
                words = f"the host has no pages of {hugepages.page_size!r}: {', '.join(sorted(ways.hugepage_sizes))}"
                raise UnsupportedField(words, field=f"{field}.hugepage_limits[{i}].page_size")
    for key, value in asked.unified.items():
        ways.take(Beyond.UNIFIED, f"{field}.unified[{key}]")
        # What begins with `cgroup.` moves, stops or kills what lives in it, and is no limit.
        if not _KEY.fullmatch(key) or key.startswith("cgroup.") or "\0" in value:
            raise InvalidArgument("is not a file of a cgroup and its content", field=f"{field}.unified[{key}]")


def make_create_resources(asked: LinuxContainerResources | None, pids_limit: int) -> EngineResources:
    """For a new container: everything said, nothing left to the daemon. 0 is no limit."""
    asked = asked or LinuxContainerResources()
    memory, swap = asked.memory_limit_in_bytes, asked.memory_swap_limit_in_bytes
    return EngineResources(
        cpu_shares=asked.cpu_shares,
        cpu_quota=max(0, asked.cpu_quota),
        cpu_period=asked.cpu_period,
        cpuset_cpus=asked.cpuset_cpus,
        cpuset_mems=asked.cpuset_mems,
        memory=memory,
        # Unset: no swap beyond the limit (CRI).
        memory_swap=swap or memory,
        pids_limit=pids_limit,
    )


def make_update_resources(asked: LinuxContainerResources, now: EngineResources) -> EngineResources:
    """For a running container: zero leaves a value as it is. `now` is what is in force."""
    memory: int | None = asked.memory_limit_in_bytes or None
    swap: int | None = asked.memory_swap_limit_in_bytes or None
    if memory is not None and swap is None:
        swap = _swap_beside(memory, now)
    if swap is not None and memory is None and (now.memory or 0) > 0:
        memory = now.memory  # the engine takes a swap limit only beside a memory limit
    return EngineResources(
        cpu_shares=asked.cpu_shares or None,
        # The engine takes 0 for "leave"; no quota is −1.
        cpu_quota=asked.cpu_quota or None,
        cpu_period=asked.cpu_period or None,
        cpuset_cpus=asked.cpuset_cpus or None,
        cpuset_mems=asked.cpuset_mems or None,
        memory=memory,
        memory_swap=swap,
    )


def _swap_beside(memory: int, now: EngineResources) -> int | None:
    """The swap limit when only memory was asked for; None: it stays.

    It goes with memory where no swap was allowed, and where it would be below (the engine refuses that).
    """
    limit = now.memory_swap or 0
    if limit == -1:
        return -1
    allows_swap = limit > (now.memory or 0) > 0
    return None if allows_swap and limit >= memory else memory
