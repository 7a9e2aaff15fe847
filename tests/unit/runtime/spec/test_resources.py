"""Limits from CRI's terms to the engine's."""

from __future__ import annotations

from typing import Any

import pytest

from crishim.engine.values import EngineResources
from crishim.errors import InvalidArgument, UnsupportedField
from crishim.model import HugepageLimit, LinuxContainerResources
from crishim.runtime.spec.resources import check_resources, make_create_resources, make_update_resources

MIB = 1 << 20


def ask(**values: Any) -> LinuxContainerResources:
    return LinuxContainerResources(**values)


@pytest.mark.parametrize(
    "asked",
    [
        ask(),
        ask(cpu_quota=-1, cpu_period=100_000, cpu_shares=2),
        ask(cpu_quota=1_000, cpu_period=1_000_000, cpu_shares=262_144),
        ask(memory_limit_in_bytes=MIB),
        ask(memory_limit_in_bytes=MIB, memory_swap_limit_in_bytes=MIB),
        ask(memory_limit_in_bytes=MIB, memory_swap_limit_in_bytes=-1),
        ask(memory_swap_limit_in_bytes=-1),
        ask(oom_score_adj=-1000),
        ask(oom_score_adj=1000),
        ask(cpuset_cpus="0-2,7", cpuset_mems="0"),
        ask(hugepage_limits=(HugepageLimit(page_size="2MB"), HugepageLimit(page_size="1GB"))),
    ],
)
def test_possible(asked: LinuxContainerResources) -> None:
    check_resources(asked, "f")


@pytest.mark.parametrize(
    ("asked", "error", "field"),
    [
        (ask(cpu_period=-1), InvalidArgument, "f.cpu_period"),
        (ask(cpu_quota=-2), InvalidArgument, "f.cpu_quota"),
        (ask(cpu_shares=-1), InvalidArgument, "f.cpu_shares"),
        (ask(cpu_shares=1), InvalidArgument, "f.cpu_shares"),
        (ask(cpu_shares=262_145), InvalidArgument, "f.cpu_shares"),
        (ask(cpu_period=999), InvalidArgument, "f.cpu_period"),
        (ask(cpu_period=1_000_001), InvalidArgument, "f.cpu_period"),
        (ask(cpu_quota=999), InvalidArgument, "f.cpu_quota"),
        (ask(memory_limit_in_bytes=-1), InvalidArgument, "f.memory_limit_in_bytes"),
        (ask(memory_swap_limit_in_bytes=-2), InvalidArgument, "f.memory_swap_limit_in_bytes"),
        (ask(memory_swap_limit_in_bytes=MIB), InvalidArgument, "f.memory_swap_limit_in_bytes"),
        (
            ask(memory_limit_in_bytes=2, memory_swap_limit_in_bytes=1),
            InvalidArgument,
            "f.memory_swap_limit_in_bytes",
        ),
        (ask(oom_score_adj=-1001), InvalidArgument, "f.oom_score_adj"),
        (ask(oom_score_adj=1001), InvalidArgument, "f.oom_score_adj"),
        (ask(cpuset_cpus="0-"), InvalidArgument, "f.cpuset_cpus"),
        (ask(cpuset_mems="a"), InvalidArgument, "f.cpuset_mems"),
        (
            ask(hugepage_limits=(HugepageLimit(page_size="1GB"), HugepageLimit(page_size="2MB", limit=1))),
            UnsupportedField,
            "f.hugepage_limits[1]",
        ),
        (ask(unified={"memory.high": "1"}), UnsupportedField, "f.unified[memory.high]"),
    ],
)
def test_impossible(asked: LinuxContainerResources, error: type[InvalidArgument], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_resources(asked, "f")
    assert (type(caught.value), caught.value.field) == (error, field)


def test_a_swap_limit_goes_with_the_memory_limit_in_force() -> None:
    check_resources(ask(memory_swap_limit_in_bytes=2 * MIB), "f", memory_in_force=MIB)
    with pytest.raises(InvalidArgument, match="includes") as caught:
        check_resources(ask(memory_swap_limit_in_bytes=MIB), "f", memory_in_force=2 * MIB)
    assert caught.value.field == "f.memory_swap_limit_in_bytes"


NOTHING = {
    "cpu_shares": 0,
    "cpu_quota": 0,
    "cpu_period": 0,
    "cpuset_cpus": "",
    "cpuset_mems": "",
    "memory": 0,
    "memory_swap": 0,
    "pids_limit": 0,
}


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        (None, {}),
        (ask(), {}),
        (ask(cpu_shares=2, cpu_period=1000, cpu_quota=500), {"cpu_shares": 2, "cpu_period": 1000, "cpu_quota": 500}),
        (ask(cpu_quota=-1), {}),
        (ask(memory_limit_in_bytes=MIB), {"memory": MIB, "memory_swap": MIB}),
        (
            ask(memory_limit_in_bytes=MIB, memory_swap_limit_in_bytes=2 * MIB),
            {"memory": MIB, "memory_swap": 2 * MIB},
        ),
        (ask(memory_limit_in_bytes=MIB, memory_swap_limit_in_bytes=-1), {"memory": MIB, "memory_swap": -1}),
        (ask(cpuset_cpus="0", cpuset_mems="1"), {"cpuset_cpus": "0", "cpuset_mems": "1"}),
    ],
)
def test_create_says_everything(asked: LinuxContainerResources | None, made: dict[str, Any]) -> None:
    given: dict[str, Any] = NOTHING | made
    assert make_create_resources(asked, 0) == EngineResources(**given)
    assert make_create_resources(asked, 100).pids_limit == 100


@pytest.mark.parametrize(
    ("asked", "now", "made"),
    [
        (ask(), {}, {}),
        (ask(oom_score_adj=5), {}, {}),
        (ask(cpu_shares=2), {}, {"cpu_shares": 2}),
        (ask(cpu_quota=-1), {}, {"cpu_quota": -1}),
        (ask(cpu_period=1000, cpu_quota=500), {}, {"cpu_period": 1000, "cpu_quota": 500}),
        (ask(cpuset_cpus="0"), {}, {"cpuset_cpus": "0"}),
        # Swap goes with memory: the engine refuses memory above the swap limit in force.
        (ask(memory_limit_in_bytes=MIB), {"memory": 1, "memory_swap": 1}, {"memory": MIB, "memory_swap": MIB}),
        (ask(memory_limit_in_bytes=MIB), {"memory": 1, "memory_swap": -1}, {"memory": MIB, "memory_swap": -1}),
        (ask(memory_limit_in_bytes=MIB), {}, {"memory": MIB, "memory_swap": MIB}),
        (
            ask(memory_limit_in_bytes=MIB),
            {"memory": 2 * MIB, "memory_swap": 2 * MIB},
            {"memory": MIB, "memory_swap": MIB},
        ),
        (ask(memory_limit_in_bytes=MIB), {"memory": 2 * MIB, "memory_swap": 8 * MIB}, {"memory": MIB}),
        (ask(memory_limit_in_bytes=MIB), {"memory": 2, "memory_swap": 8}, {"memory": MIB, "memory_swap": MIB}),
        (ask(memory_limit_in_bytes=MIB), {"memory": 0, "memory_swap": 8 * MIB}, {"memory": MIB, "memory_swap": MIB}),
        (
            ask(memory_limit_in_bytes=MIB, memory_swap_limit_in_bytes=-1),
            {"memory": 1, "memory_swap": 1},
            {"memory": MIB, "memory_swap": -1},
        ),
        (ask(memory_swap_limit_in_bytes=-1), {"memory": MIB, "memory_swap": MIB}, {"memory": MIB, "memory_swap": -1}),
        (ask(memory_swap_limit_in_bytes=-1), {"memory": 0}, {"memory_swap": -1}),
    ],
)
def test_update_leaves_what_is_zero(asked: LinuxContainerResources, now: dict[str, int], made: dict[str, Any]) -> None:
    assert make_update_resources(asked, EngineResources(**now)) == EngineResources(**made)  # type: ignore[arg-type]
