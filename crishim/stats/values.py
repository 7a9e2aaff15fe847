"""Figures as the kernel tells them. None: the kernel (or its version of cgroups) has no such figure.

Times are nanoseconds since the epoch, sizes are bytes, counters begin with the cgroup.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Vanished(Exception):  # noqa: N818 - nothing went wrong: it ended while it was looked at
    """The container or process is not there any more."""


class Stall(NamedTuple):
    """One line of a pressure file (CRI `PsiData`). A tuple, as are others of which a list makes hundreds."""

    total: int
    """Nanoseconds; the kernel counts microseconds."""
    avg10: float
    avg60: float
    avg300: float


class Pressure(NamedTuple):
    """Pressure stall information of one resource (CRI `PsiStats`). `full` is missing on kernels that lack it."""

    some: Stall
    full: Stall | None = None


class Memory(NamedTuple):
    """Memory of a cgroup and all below it."""

    usage: int
    inactive_file: int
    rss: int
    page_faults: int
    """All of them, the major ones included, as the kernel counts."""
    major_page_faults: int
    limit: int | None = None
    """None: no limit of its own."""
    swap_usage: int | None = None
    """None: the kernel does not account for swap."""
    swap_limit: int | None = None
    """Of swap alone; None: no limit, or not accounted for."""
    cache: int = 0
    mapped_file: int = 0

    @property
    def working_set(self) -> int:
        """What cannot be taken away without hurting: CRI's definition leaves out inactive file pages."""
        return max(self.usage - self.inactive_file, 0)

    @property
    def available(self) -> int | None:
        """What may still be used, None without a limit."""
        return None if self.limit is None else max(self.limit - self.working_set, 0)

    @property
    def minor_page_faults(self) -> int:
        return max(self.page_faults - self.major_page_faults, 0)

    @property
    def swap_available(self) -> int | None:
        if self.swap_usage is None or self.swap_limit is None:
            return None
        return max(self.swap_limit - self.swap_usage, 0)


class Usage(NamedTuple):
    """One cgroup at one moment, as far as statistics tell of it."""

    time: int
    cpu: int | None = None
    """Nanoseconds of all cores together."""
    memory: Memory | None = None
    cpu_pressure: Pressure | None = None
    memory_pressure: Pressure | None = None
    io_pressure: Pressure | None = None
    nano_cores: int | None = None
    """Billionths of a core that were in use of late; None until there are two samples."""


class BlockIO(NamedTuple):
    """What a cgroup read from and wrote to one block device."""

    major: int
    minor: int
    read_bytes: int
    written_bytes: int
    reads: int
    writes: int


class Detail(NamedTuple):
    """What metrics tell of a cgroup beyond `Usage`."""

    cpu_user: int | None = None
    """Nanoseconds."""
    cpu_system: int | None = None
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_time: int | None = None
    """Nanoseconds."""
    memory_max_usage: int | None = None
    memory_failures: int | None = None
    """How often the limit was hit."""
    memory_kernel: int | None = None
    memory_reservation: int | None = None
    """0: none."""
    oom_kills: int | None = None
    threads: int | None = None
    threads_max: int | None = None
    """0: no limit."""
    block_io: tuple[BlockIO, ...] = ()
    huge_pages: tuple[tuple[str, int, int | None], ...] = ()
    """Page size as cgroups write it (`2MB`), bytes in use, most that ever were."""


class Interface(NamedTuple):
    """Counters of one network interface (CRI `NetworkInterfaceUsage`)."""

    name: str
    rx_bytes: int
    rx_packets: int
    rx_errors: int
    rx_dropped: int
    tx_bytes: int
    tx_packets: int
    tx_errors: int
    tx_dropped: int


@dataclass(frozen=True, slots=True)
class Network:
    """The interfaces of a pod. There is always a default one: a kubelet looks at it without asking."""

    time: int
    default: Interface
    others: tuple[Interface, ...] = ()

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        return (self.default, *self.others)


@dataclass(frozen=True, slots=True)
class Layer:
    """How much a container's writable layer holds (CRI `FilesystemUsage`), as of `time`."""

    time: int
    used_bytes: int = 0
    inodes: int = 0
    complete: bool = True
    """False: so much at least, it is still being counted."""


@dataclass(frozen=True, slots=True)
class Processes:
    """What the processes of a container have open."""

    count: int = 0
    descriptors: int = 0
    sockets: int = 0
    open_files_limit: int | None = None
    """Soft limit of its first process; -1: none."""


def add(parts: Iterable[Usage], time: int) -> Usage:
    """The sum of several cgroups. Pressure has none, and limits that are not one limit are none."""
    usages = list(parts)
    memories = [usage.memory for usage in usages if usage.memory is not None]
    cpus = [usage.cpu for usage in usages if usage.cpu is not None]
    swaps = [memory.swap_usage for memory in memories if memory.swap_usage is not None]
    memory = None
    if memories:
        usage, inactive_file, rss, page_faults, major_page_faults, _, _, _, cache, mapped_file = zip(
            *memories, strict=True
        )
        memory = Memory(
            usage=sum(usage),
            inactive_file=sum(inactive_file),
            rss=sum(rss),
            page_faults=sum(page_faults),
            major_page_faults=sum(major_page_faults),
            swap_usage=sum(swaps) if swaps else None,
            cache=sum(cache),
            mapped_file=sum(mapped_file),
        )
    return Usage(time=time, cpu=sum(cpus) if cpus else None, memory=memory)
