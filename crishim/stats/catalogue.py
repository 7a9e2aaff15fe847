"""The metrics that are told of pods and containers: cAdvisor's names, help and labels, as dashboards know them.

A kubelet with PodAndContainerStatsFromCRI passes them on under /metrics/cadvisor as they are, so each has the labels by
which it would have named the container itself: `container`, `id`, `image`, `name`, `namespace`, `pod`.
"""

from __future__ import annotations

from dataclasses import dataclass

LABELS = ("container", "id", "image", "name", "namespace", "pod")
"""Labels of every metric, in the order of their values."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One name (CRI `MetricDescriptor`)."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    """Beyond `LABELS`, after them."""
    counter: bool = False

    @property
    def label_keys(self) -> tuple[str, ...]:
        return (*LABELS, *self.labels)


def _all(*rows: tuple[str, str, str]) -> dict[str, Metric]:
    """Name, further labels, help. A counter is what ends in `_total` or counts failures."""
    return {
        name: Metric(f"container_{name}", text, tuple(labels.split()), name.endswith(("_total", "_failcnt")))
        for name, labels, text in rows
    }


METRICS = _all(
    # processor
    ("cpu_usage_seconds_total", "cpu", "Cumulative cpu time consumed in seconds."),
    ("cpu_user_seconds_total", "", "Cumulative user cpu time consumed in seconds."),
    ("cpu_system_seconds_total", "", "Cumulative system cpu time consumed in seconds."),
    ("cpu_cfs_periods_total", "", "Number of elapsed enforcement period intervals."),
    ("cpu_cfs_throttled_periods_total", "", "Number of throttled period intervals."),
    ("cpu_cfs_throttled_seconds_total", "", "Total time duration the container has been throttled."),
    # memory
    ("memory_cache", "", "Number of bytes of page cache memory."),
    ("memory_failcnt", "", "Number of memory usage hits limits"),
    ("memory_failures_total", "failure_type scope", "Cumulative count of memory allocation failures."),
    ("memory_kernel_usage", "", "Size of kernel memory allocated in bytes."),
    ("memory_mapped_file", "", "Size of memory mapped files in bytes."),
    ("memory_max_usage_bytes", "", "Maximum memory usage recorded in bytes"),
    ("memory_rss", "", "Size of RSS in bytes."),
    ("memory_swap", "", "Container swap usage in bytes."),
    (
        "memory_usage_bytes",
        "",
        "Current memory usage in bytes, including all memory regardless of when it was accessed",
    ),
    ("memory_working_set_bytes", "", "Current working set in bytes."),
    ("oom_events_total", "", "Count of out of memory events observed for the container"),
    ("hugetlb_usage_bytes", "pagesize", "Current hugepage usage"),
    ("hugetlb_max_usage_bytes", "pagesize", "Maximum hugepage usages recorded"),
    # file systems and block devices
    ("fs_usage_bytes", "device", "Number of bytes that are consumed by the container on this filesystem."),
    ("fs_limit_bytes", "device", "Number of bytes that can be consumed by the container on this filesystem."),
    ("fs_inodes_free", "device", "Number of available Inodes"),
    ("fs_inodes_total", "device", "Number of Inodes"),
    ("fs_reads_bytes_total", "device", "Cumulative count of bytes read"),
    ("fs_reads_total", "device", "Cumulative count of reads completed"),
    ("fs_writes_bytes_total", "device", "Cumulative count of bytes written"),
    ("fs_writes_total", "device", "Cumulative count of writes completed"),
    ("blkio_device_usage_total", "device major minor operation", "Blkio Device bytes usage"),
    # network
    ("network_receive_bytes_total", "interface", "Cumulative count of bytes received"),
    ("network_receive_errors_total", "interface", "Cumulative count of errors encountered while receiving"),
    ("network_receive_packets_dropped_total", "interface", "Cumulative count of packets dropped while receiving"),
    ("network_receive_packets_total", "interface", "Cumulative count of packets received"),
    ("network_transmit_bytes_total", "interface", "Cumulative count of bytes transmitted"),
    ("network_transmit_errors_total", "interface", "Cumulative count of errors encountered while transmitting"),
    ("network_transmit_packets_dropped_total", "interface", "Cumulative count of packets dropped while transmitting"),
    ("network_transmit_packets_total", "interface", "Cumulative count of packets transmitted"),
    # processes
    ("processes", "", "Number of processes running inside the container."),
    ("threads", "", "Number of threads running inside the container"),
    ("threads_max", "", "Maximum number of threads allowed inside the container, infinity if value is zero"),
    ("file_descriptors", "", "Number of open file descriptors for the container."),
    ("sockets", "", "Number of open sockets for the container."),
    (
        "ulimits_soft",
        "ulimit",
        "Soft ulimit values for the container root process. Unlimited if -1, except priority and nice",
    ),
    # pressure
    (
        "pressure_cpu_stalled_seconds_total",
        "",
        "Total time duration no tasks in the container could make progress due to CPU congestion.",
    ),
    (
        "pressure_cpu_waiting_seconds_total",
        "",
        "Total time duration tasks in the container have waited due to CPU congestion.",
    ),
    (
        "pressure_io_stalled_seconds_total",
        "",
        "Total time duration no tasks in the container could make progress due to IO congestion.",
    ),
    (
        "pressure_io_waiting_seconds_total",
        "",
        "Total time duration tasks in the container have waited due to IO congestion.",
    ),
    (
        "pressure_memory_stalled_seconds_total",
        "",
        "Total time duration no tasks in the container could make progress due to memory congestion.",
    ),
    (
        "pressure_memory_waiting_seconds_total",
        "",
        "Total time duration tasks in the container have waited due to memory congestion.",
    ),
    # what was asked, and when
    ("spec_cpu_period", "", "CPU period of the container."),
    ("spec_cpu_quota", "", "CPU quota of the container."),
    ("spec_cpu_shares", "", "CPU share of the container."),
    ("spec_memory_limit_bytes", "", "Memory limit for the container."),
    ("spec_memory_reservation_limit_bytes", "", "Memory reservation limit for the container."),
    ("spec_memory_swap_limit_bytes", "", "Memory swap limit for the container."),
    ("start_time_seconds", "", "Start time of the container since unix epoch in seconds."),
    ("last_seen", "", "Last time a container was seen by the exporter"),
)
"""By name without `container_`."""
