"""Figures as samples of the catalogue's metrics. Pure. A figure that there is none of has no sample.

Values are whole numbers (CRI `Metric.value`): seconds counters tell whole seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from crishim.engine.values import EngineResources
from crishim.stats.disk import Disk, block_device
from crishim.stats.values import Detail, Interface, Layer, Pressure, Processes, Usage

SECOND = 10**9
_SHARES, _PERIOD = 1024, 100_000
"""The kernel's own, where none were given."""


Sample = tuple[str, int, tuple[str, ...]]
"""A value of one metric: its name without `container_`, the value, and the values of its further labels. A bare tuple,
as a scrape makes thousands."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels that all metrics of one container or pod share; for a pod's own, `container`, `image`, `name` are
    empty."""

    container: str
    id: str
    """The cgroup's path."""
    image: str
    name: str
    namespace: str
    pod: str

    @property
    def values(self) -> tuple[str, ...]:
        """In the order of `catalogue.LABELS`."""
        return (self.container, self.id, self.image, self.name, self.namespace, self.pod)


class Group(NamedTuple):
    """Samples that are made of the same figures: equal groups have equal samples, which need not be made then."""

    make: Callable[..., Iterable[Sample]]
    figures: tuple[Any, ...]
    """What `make` is called with."""


class Metered(NamedTuple):
    """What is told of one container or pod."""

    key: str
    """Its id."""
    labels: Labels
    groups: list[Group]
    """In the same order each time."""


def sample_usage(usage: Usage) -> Iterator[Sample]:
    """Processor time, memory and pressure."""
    if usage.cpu is not None:
        yield "cpu_usage_seconds_total", usage.cpu // SECOND, ("total",)
    if (memory := usage.memory) is not None:
        yield "memory_usage_bytes", memory.usage, ()
        yield "memory_working_set_bytes", memory.working_set, ()
        yield "memory_rss", memory.rss, ()
        yield "memory_cache", memory.cache, ()
        yield "memory_mapped_file", memory.mapped_file, ()
        if memory.swap_usage is not None:
            yield "memory_swap", memory.swap_usage, ()
        for scope in ("container", "hierarchy"):
            # Both count all below, since a container's own cgroups are part of it.
            yield "memory_failures_total", memory.page_faults, ("pgfault", scope)
            yield "memory_failures_total", memory.major_page_faults, ("pgmajfault", scope)
    yield from _pressure("cpu", usage.cpu_pressure)
    yield from _pressure("memory", usage.memory_pressure)
    yield from _pressure("io", usage.io_pressure)


def _pressure(resource: str, pressure: Pressure | None) -> Iterator[Sample]:
    if pressure is not None:
        yield f"pressure_{resource}_waiting_seconds_total", pressure.some.total // SECOND, ()
        if pressure.full is not None:
            yield f"pressure_{resource}_stalled_seconds_total", pressure.full.total // SECOND, ()


def sample_detail(detail: Detail) -> Iterator[Sample]:
    """What cgroups tell beyond."""
    seconds = (
        ("cpu_user_seconds_total", detail.cpu_user),
        ("cpu_system_seconds_total", detail.cpu_system),
        ("cpu_cfs_throttled_seconds_total", detail.throttled_time),
    )
    numbers = (
        ("cpu_cfs_periods_total", detail.periods),
        ("cpu_cfs_throttled_periods_total", detail.throttled_periods),
        ("memory_failcnt", detail.memory_failures),
        ("memory_kernel_usage", detail.memory_kernel),
        ("memory_max_usage_bytes", detail.memory_max_usage),
        ("oom_events_total", detail.oom_kills),
        ("spec_memory_reservation_limit_bytes", detail.memory_reservation),
        ("threads", detail.threads),
        ("threads_max", detail.threads_max),
    )
    for metric, nanoseconds in seconds:
        if nanoseconds is not None:
            yield metric, nanoseconds // SECOND, ()
    for metric, number in numbers:
        if number is not None:
            yield metric, number, ()
    for io in detail.block_io:
        device = block_device(io.major, io.minor)
        yield "fs_reads_bytes_total", io.read_bytes, (device,)
        yield "fs_reads_total", io.reads, (device,)
        yield "fs_writes_bytes_total", io.written_bytes, (device,)
        yield "fs_writes_total", io.writes, (device,)
        for operation, size in (("Read", io.read_bytes), ("Write", io.written_bytes)):
            labels = (device, str(io.major), str(io.minor), operation)
            yield "blkio_device_usage_total", size, labels
    for pages, used, most in detail.huge_pages:
        yield "hugetlb_usage_bytes", used, (pages,)
        if most is not None:
            yield "hugetlb_max_usage_bytes", most, (pages,)


def sample_disk(disk: Disk, layer: Layer) -> Iterator[Sample]:
    """The writable layer, and the file system that it may fill."""
    where = (disk.device,)
    yield "fs_usage_bytes", layer.used_bytes, where
    yield "fs_limit_bytes", disk.size, where
    yield "fs_inodes_free", disk.inodes_free, where
    yield "fs_inodes_total", disk.inodes, where


def sample_count(processes: int) -> Iterator[Sample]:
    """Processes."""
    yield "processes", processes, ()


def sample_processes(processes: Processes) -> Iterator[Sample]:
    """Processes and what they have open."""
    yield from sample_count(processes.count)
    yield "file_descriptors", processes.descriptors, ()
    yield "sockets", processes.sockets, ()
    if (limit := processes.open_files_limit) is not None and limit >= 0:
        # -1, for no limit, is no value that the interface could carry.
        yield "ulimits_soft", limit, ("max_open_files",)


def sample_spec(resources: EngineResources, started_at: int) -> Iterator[Sample]:
    """What was asked, and when it was started (nanoseconds since the epoch)."""
    yield "spec_cpu_shares", resources.cpu_shares or _SHARES, ()
    yield "spec_cpu_period", resources.cpu_period or _PERIOD, ()
    if resources.cpu_quota and resources.cpu_quota > 0:
        yield "spec_cpu_quota", resources.cpu_quota, ()
    yield "spec_memory_limit_bytes", max(resources.memory or 0, 0), ()
    yield "spec_memory_swap_limit_bytes", max(resources.memory_swap or 0, 0), ()
    yield "start_time_seconds", started_at // SECOND, ()


def sample_seen(second: int) -> Iterator[Sample]:
    """When it was looked at (seconds since the epoch)."""
    yield "last_seen", second, ()


def sample_network(*interfaces: Interface) -> Iterator[Sample]:
    """Every interface of a pod."""
    for interface in interfaces:
        name = (interface.name,)
        yield "network_receive_bytes_total", interface.rx_bytes, name
        yield "network_receive_packets_total", interface.rx_packets, name
        yield "network_receive_errors_total", interface.rx_errors, name
        yield "network_receive_packets_dropped_total", interface.rx_dropped, name
        yield "network_transmit_bytes_total", interface.tx_bytes, name
        yield "network_transmit_packets_total", interface.tx_packets, name
        yield "network_transmit_errors_total", interface.tx_errors, name
        yield "network_transmit_packets_dropped_total", interface.tx_dropped, name
