"""Statistics on the wire: each figure in its field, what there is none of unset, and nothing of last time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc.stats_messages import StatsMessages
from crishim.runtime.objects import Container, Sandbox
from crishim.stats.figures import ContainerFigures, PodFigures
from crishim.stats.values import Interface, Layer, Memory, Network, Pressure, Stall, Usage

STALL = Stall(7_000, 0.5, 1.5, 2.5)
FULL = Pressure(STALL, Stall(3_000, 0, 0, 0))
MEMORY = Memory(
    usage=100, inactive_file=30, rss=50, page_faults=9, major_page_faults=2, limit=1000, swap_usage=5, swap_limit=20
)
USAGE = Usage(3, 5_000, MEMORY, FULL, Pressure(STALL), FULL, 250)
NETWORK = Network(4, Interface("eth0", 1, 2, 3, 4, 5, 6, 7, 8), (Interface("net1", 11, 12, 13, 14, 15, 16, 17, 18),))


@pytest.fixture
def figures(make_container: Callable[..., Container]) -> ContainerFigures:
    asked = make_container(config={"labels": {"app": "x"}})
    return ContainerFigures(container=asked, usage=USAGE, layer=Layer(2, 4096, 3), mountpoint="/x")


def told(messages: StatsMessages, figures: ContainerFigures) -> pb.ContainerStats:
    return pb.ContainerStats.FromString(messages.container(figures))


def number(value: int) -> pb.UInt64Value:
    return pb.UInt64Value(value=value)


def some_and_full(full: bool = True) -> pb.PsiStats:
    some = pb.PsiData(Total=7_000, Avg10=0.5, Avg60=1.5, Avg300=2.5)
    return pb.PsiStats(Some=some, Full=pb.PsiData(Total=3_000) if full else None)


CPU = pb.CpuUsage(timestamp=3, usage_core_nano_seconds=number(5_000), usage_nano_cores=number(250), psi=some_and_full())
TOLD = pb.MemoryUsage(
    timestamp=3,
    working_set_bytes=number(70),
    available_bytes=number(930),
    usage_bytes=number(100),
    rss_bytes=number(50),
    page_faults=number(7),
    major_page_faults=number(2),
    psi=some_and_full(full=False),
)
IO = pb.IoUsage(timestamp=3, psi=some_and_full())


def test_every_figure_of_a_container(figures: ContainerFigures) -> None:
    stats = told(StatsMessages(), figures)
    assert stats.attributes.id == figures.container.id
    assert stats.attributes.metadata.name == "main"
    assert dict(stats.attributes.labels) == {"app": "x"}
    stats.ClearField("attributes")
    assert stats == pb.ContainerStats(
        cpu=CPU,
        memory=TOLD,
        io=IO,
        swap=pb.SwapUsage(timestamp=3, swap_usage_bytes=number(5), swap_available_bytes=number(15)),
        writable_layer=pb.FilesystemUsage(
            timestamp=2,
            fs_id=pb.FilesystemIdentifier(mountpoint="/x"),
            used_bytes=number(4096),
            inodes_used=number(3),
        ),
    )


def test_every_figure_of_a_pod(figures: ContainerFigures, make_sandbox: Callable[..., Sandbox]) -> None:
    pod = PodFigures(
        sandbox=make_sandbox(), time=6, usage=USAGE, network=NETWORK, processes=2, containers=[figures, figures]
    )
    stats = pb.PodSandboxStats.FromString(StatsMessages().pod(pod))
    assert stats.attributes.id == pod.sandbox.id
    assert stats.attributes.metadata.uid == pod.sandbox.metadata.uid

    def interface(name: str, first: int) -> pb.NetworkInterfaceUsage:
        rx, rx_errors, tx, tx_errors = (number(first + offset) for offset in (0, 2, 4, 6))
        return pb.NetworkInterfaceUsage(name=name, rx_bytes=rx, rx_errors=rx_errors, tx_bytes=tx, tx_errors=tx_errors)

    assert stats.linux == pb.LinuxPodSandboxStats(
        cpu=CPU,
        memory=TOLD,
        io=IO,
        network=pb.NetworkUsage(
            timestamp=4, default_interface=interface("eth0", 1), interfaces=[interface("net1", 11)]
        ),
        process=pb.ProcessUsage(timestamp=6, process_count=number(2)),
        containers=[told(StatsMessages(), figures)] * 2,
    )


BARE = Memory(usage=100, inactive_file=100, rss=0, page_faults=0, major_page_faults=0)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        USAGE,
        USAGE._replace(time=99),
        USAGE._replace(cpu=5_001),
        USAGE._replace(nano_cores=None),
        USAGE._replace(cpu_pressure=None),
        USAGE._replace(memory=MEMORY._replace(swap_limit=None)),
        USAGE._replace(memory=BARE, memory_pressure=FULL),
        Usage(7, memory=BARE),
        Usage(8, cpu=0),
    ],
)
def test_nothing_is_left_of_what_was_told_last_time(figures: ContainerFigures, usage: Usage | None) -> None:
    messages = StatsMessages()
    for before in (USAGE, None, Usage(1, 2, BARE)):
        told(messages, replace(figures, usage=before, layer=Layer(9, 9, 9)))
        now = replace(figures, usage=usage)
        assert told(messages, now) == told(StatsMessages(), now)
    assert len(messages) == 1
    record = figures.container.record
    relabelled = replace(record, config=replace(record.config, labels={"new": "one"}))
    renamed = replace(figures, container=replace(figures.container, record=relabelled))
    assert dict(told(messages, renamed).attributes.labels) == {"new": "one"}


def test_zero_is_told_and_what_there_is_none_of_is_not(
    figures: ContainerFigures, make_sandbox: Callable[..., Sandbox]
) -> None:
    stats = told(StatsMessages(), replace(figures, usage=Usage(8, cpu=0, memory=BARE)))
    assert stats.cpu.HasField("usage_core_nano_seconds")
    assert stats.memory.HasField("working_set_bytes")
    absent = (
        stats.HasField("swap"),
        stats.HasField("io"),
        stats.cpu.HasField("usage_nano_cores"),
        stats.cpu.HasField("psi"),
        stats.memory.HasField("available_bytes"),
    )
    assert not any(absent)
    bare = PodFigures(sandbox=make_sandbox(), time=1, usage=None, network=None, processes=None, containers=())
    pod = pb.PodSandboxStats.FromString(StatsMessages().pod(bare))
    assert pod.HasField("linux")
    assert pod.linux == pb.LinuxPodSandboxStats()


def test_the_time_has_the_same_field_everywhere() -> None:
    for figures in (pb.CpuUsage, pb.MemoryUsage, pb.SwapUsage, pb.IoUsage, pb.NetworkUsage, pb.ProcessUsage):
        assert figures.DESCRIPTOR.fields_by_name["timestamp"].number == 1
    for stats in (pb.ContainerStats, pb.PodSandboxStats):
        assert stats.DESCRIPTOR.fields_by_name["attributes"].number == 1
