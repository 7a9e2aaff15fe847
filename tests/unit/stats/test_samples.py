"""Figures as samples: each has its metric in the catalogue, with as many labels."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.engine.values import EngineResources
from crishim.rpc.metrics_messages import MetricsEncoder, make_descriptors
from crishim.stats.catalogue import LABELS, METRICS
from crishim.stats.disk import Disk, block_device, look_at_disk, mounted_device
from crishim.stats.meter import PodMetrics
from crishim.stats.samples import (
    SECOND,
    Group,
    Labels,
    Metered,
    Sample,
    sample_detail,
    sample_disk,
    sample_network,
    sample_processes,
    sample_seen,
    sample_spec,
    sample_usage,
)
from crishim.stats.values import (
    BlockIO,
    Detail,
    Interface,
    Layer,
    Memory,
    Network,
    Pressure,
    Processes,
    Stall,
    Usage,
)
from tests.unit.stats.conftest import Tree

STALL = Pressure(Stall(7 * SECOND, 0, 0, 0), Stall(3 * SECOND, 0, 0, 0))
MEMORY = Memory(usage=100, inactive_file=30, rss=50, page_faults=9, major_page_faults=2, swap_usage=0, cache=40)
USAGE = Usage(time=1, cpu=5 * SECOND - 1, memory=MEMORY, cpu_pressure=STALL, memory_pressure=STALL, io_pressure=STALL)
DETAIL = Detail(
    cpu_user=SECOND, cpu_system=2 * SECOND, periods=3, throttled_periods=4, throttled_time=5 * SECOND,
    memory_max_usage=6, memory_failures=7, memory_kernel=8, memory_reservation=0, oom_kills=9, threads=10,
    threads_max=0, block_io=(BlockIO(1, 7, 11, 12, 13, 14),), huge_pages=(("2MB", 15, 16), ("1GB", 17, None)),
)  # fmt: skip
NETWORK = Network(1, Interface("eth0", 1, 2, 3, 4, 5, 6, 7, 8), (Interface("net1", 1, 2, 3, 4, 5, 6, 7, 8),))
LABELS_OF_ONE = Labels("main", "/pods/x", "busybox:1", "k8s_main", "default", "web")


def everything() -> Iterator[Sample]:
    yield from sample_usage(USAGE)
    yield from sample_detail(DETAIL)
    yield from sample_network(*NETWORK.interfaces)
    yield from sample_disk(Disk("/dev/vda", 1000, 100, 50), Layer(1, 10, 2))
    yield from sample_processes(Processes(1, 2, 3, 1024))
    yield from sample_spec(EngineResources(cpu_quota=50_000, memory=1 << 20, memory_swap=-1), 3 * SECOND)
    yield from sample_seen(9)


def metered(key: str, labels: Labels, *groups: list[Sample]) -> Metered:
    """Groups of these samples."""
    return Metered(key, labels, [Group(_themselves, tuple(samples)) for samples in groups])


def _themselves(*samples: Sample) -> tuple[Sample, ...]:
    return samples


def test_every_metric_of_the_catalogue_can_be_told_and_no_other() -> None:
    assert {sample[0] for sample in everything()} == set(METRICS)


def test_labels_are_in_number_and_no_sample_comes_twice() -> None:
    samples = list(everything())
    for sample in samples:
        assert len(sample[2]) == len(METRICS[sample[0]].labels), sample
    # A scrape of two equal ones fails as a whole.
    twice = {key: n for key, n in Counter((s[0], s[2]) for s in samples).items() if n > 1}
    assert twice == {}


def values() -> dict[str, int]:
    return {" ".join((sample[0], *sample[2])): sample[1] for sample in everything()}


@pytest.mark.parametrize(
    ("sample", "value"),
    [
        ("cpu_usage_seconds_total total", 4),
        ("cpu_system_seconds_total", 2),
        ("cpu_cfs_throttled_seconds_total", 5),
        ("memory_working_set_bytes", 70),
        ("memory_failures_total pgfault hierarchy", 9),
        ("memory_failures_total pgmajfault container", 2),
        ("memory_swap", 0),
        ("pressure_io_waiting_seconds_total", 7),
        ("pressure_cpu_stalled_seconds_total", 3),
        ("network_receive_packets_dropped_total eth0", 4),
        ("network_transmit_bytes_total net1", 5),
        ("blkio_device_usage_total /dev/loop7 1 7 Write", 12),
        ("hugetlb_usage_bytes 1GB", 17),
        ("fs_usage_bytes /dev/vda", 10),
        ("fs_limit_bytes /dev/vda", 1000),
        ("spec_cpu_shares", 1024),
        ("spec_cpu_quota", 50_000),
        ("spec_memory_swap_limit_bytes", 0),
        ("start_time_seconds", 3),
        ("ulimits_soft max_open_files", 1024),
        ("oom_events_total", 9),
        ("threads_max", 0),
    ],
)
def test_values(sample: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crishim.stats.samples.block_device", lambda major, minor: f"/dev/loop{minor}")
    assert values()[sample] == value


def test_what_there_is_none_of_has_no_sample() -> None:
    assert list(sample_usage(Usage(time=1))) == []
    assert list(sample_detail(Detail())) == []
    assert [s[0] for s in sample_processes(Processes(1, 2, 3, -1))] == ["processes", "file_descriptors", "sockets"]
    unlimited = {s[0] for s in sample_spec(EngineResources(cpu_quota=-1), 1)}
    assert "spec_cpu_quota" not in unlimited


def test_recorded_trees_tell_of_nearly_all(tree: Tree) -> None:
    kernel = tree.kernel()
    place = kernel.place(tree.container, tree.pids["container"])
    told = {sample[0] for sample in (*sample_usage(kernel.usage(place)), *sample_detail(kernel.detail(place)))}
    expected = {name for name in METRICS if name.startswith(("cpu_", "memory_", "threads", "oom_"))}
    assert expected <= told


def test_descriptors() -> None:
    described = make_descriptors().descriptors
    names = [descriptor.name for descriptor in described]
    assert len(names) == len(set(names)) == len(METRICS) == 56
    for descriptor in described:
        assert descriptor.help
        assert tuple(descriptor.label_keys[: len(LABELS)]) == LABELS
        assert len(set(descriptor.label_keys)) == len(descriptor.label_keys)


def encoded(pod: PodMetrics, encoder: MetricsEncoder | None = None) -> pb.PodSandboxMetrics:
    (item,) = (MetricsEncoder() if encoder is None else encoder).encode([pod])
    return pb.PodSandboxMetrics.FromString(item)


def test_on_the_wire_each_sample_has_its_descriptors_labels_and_a_value() -> None:
    keys = {descriptor.name: descriptor.label_keys for descriptor in make_descriptors().descriptors}
    samples = list(everything())
    of_pod = Labels("", "/pods/x", "", "", "default", "web")
    network = list(sample_network(*NETWORK.interfaces))
    pod = PodMetrics(metered("s", of_pod, network), [metered("c", LABELS_OF_ONE, samples)])
    message = encoded(pod)
    (container,) = message.container_metrics
    assert (message.pod_sandbox_id, container.container_id) == ("s", "c")
    assert len(message.metrics) == 16
    assert len(container.metrics) == len(samples)
    for metric, sample in zip(container.metrics, samples, strict=True):
        assert metric.name == f"container_{sample[0]}"
        assert metric.HasField("value")
        assert metric.value.value == sample[1]
        assert metric.timestamp == 0
        assert len(metric.label_values) == len(keys[metric.name])
        told = dict(zip(keys[metric.name], metric.label_values, strict=True))
        assert (told["container"], told["pod"], told["namespace"]) == ("main", "web", "default")
        assert (metric.metric_type == pb.COUNTER) == metric.name.endswith(("_total", "_failcnt"))


@pytest.mark.parametrize("value", [0, 1, 127, 128, 2**32, 2**63, 2**64 - 1])
def test_values_of_any_size(value: int) -> None:
    pod = PodMetrics(metered("s", LABELS_OF_ONE, [("memory_rss", value, ())]), [])
    (metric,) = encoded(pod).metrics
    assert (metric.HasField("value"), metric.value.value) == (True, value)


def test_what_is_kept_is_of_the_last_time_and_of_these_labels() -> None:
    encoder = MetricsEncoder()
    old = PodMetrics(metered("s", LABELS_OF_ONE, [("memory_rss", 1, ())]), [])
    moved = Labels("main", "/pods/y", "busybox:1", "k8s_main", "default", "web")
    new = PodMetrics(metered("s", moved, [("memory_rss", 2, ())]), [])
    assert encoded(old, encoder).metrics[0].label_values[1] == "/pods/x"
    (metric,) = encoded(new, encoder).metrics
    assert (metric.label_values[1], metric.value.value) == ("/pods/y", 2)
    assert len(encoder) == 1
    assert encoder.encode([]) == []
    assert len(encoder) == 0


def test_what_is_kept_is_never_told_of_another_sample() -> None:
    """What was encoded last time is taken by its place, and that of a group or sample may be another's next time."""
    encoder = MetricsEncoder()
    rounds: list[list[Sample]] = [
        [("memory_rss", 1, ()), ("threads", 2, ()), ("network_receive_bytes_total", 3, ("eth0",))],
        [("memory_rss", 1, ()), ("threads", 300, ()), ("network_receive_bytes_total", 3, ("eth1",))],
        [("threads", 1, ()), ("memory_rss", 300, ()), ("network_receive_bytes_total", 3, ("eth1",))],
        [("memory_rss", 300, ())],
        [],
        [("memory_rss", 300, ()), ("memory_rss", 301, ())],
        [("memory_rss", 2**64 - 1, ()), ("memory_rss", 0, ())],
    ]
    for turn, samples in enumerate(rounds * 2):
        cut = turn // 2 % 3  # sometimes where it was cut last time
        groups = metered("s", LABELS_OF_ONE, samples[:cut], samples[cut:])
        metrics = encoded(PodMetrics(groups, []), encoder).metrics
        told = [
            (m.name.removeprefix("container_"), m.value.value, tuple(m.label_values[len(LABELS) :])) for m in metrics
        ]
        assert told == samples
        assert all(m.HasField("value") for m in metrics)


def test_equal_figures_are_not_made_into_samples_again() -> None:
    encoder = MetricsEncoder()
    made: list[int] = []

    def make(value: int) -> list[Sample]:
        made.append(value)
        return [("memory_rss", value, ())]

    for value in (1, 1, 2, 2, 1):
        pod = PodMetrics(Metered("s", LABELS_OF_ONE, [Group(make, (value,))]), [])
        assert [metric.value.value for metric in encoded(pod, encoder).metrics] == [value]
    assert made == [1, 2, 1]


def test_names_of_block_devices(tmp_path: Path) -> None:
    (tmp_path / "7:1").symlink_to("../../devices/virtual/block/loop1")
    assert [block_device(7, minor, str(tmp_path)) for minor in (1, 2)] == ["/dev/loop1", "7:2"]


def test_the_disk_of_a_folder(tmp_path: Path) -> None:
    disk = look_at_disk("/proc", str(tmp_path))
    assert disk.device
    assert disk.size > 0
    number = f"{os.major(tmp_path.stat().st_dev)}:{os.minor(tmp_path.stat().st_dev)}"
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text(f"1 2 {number} / /x rw - ext4 /dev/my\\040disk rw\n")
    assert look_at_disk(str(tmp_path), str(tmp_path)).device == "/dev/my disk"
    assert mounted_device(str(tmp_path), "0:0") == ""
