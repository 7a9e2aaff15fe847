"""Which objects a comparison leaves out, and whose turn it is."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from crishim.engine.values import ContainerPhase, EngineContainer, ListedContainer
from crishim.runtime.unchanged import LEAST, ROUND, Turns, find_unchanged, lives

RUNS = EngineContainer(
    id="a",
    name="one",
    image_id="i",
    image="i",
    phase=ContainerPhase.RUNNING,
    pid=7,
    created_at=1,
    started_at=2,
    labels={},
)
ROW = ListedContainer(id="a", names=("one",), phase=ContainerPhase.RUNNING, paused=False)


def unchanged(row: ListedContainer, live: EngineContainer | None, *, there: bool = True) -> bool:
    told = {} if live is None else {live.id: live}
    found = find_unchanged([row], told, (), lambda container_id, pid: there and (container_id, pid) == ("a", 7))
    assert found <= {"a"}
    return bool(found)


def test_as_it_was() -> None:
    assert unchanged(ROW, RUNS)
    assert unchanged(replace(ROW, names=("other/alias", "one")), RUNS)
    for phase in (ContainerPhase.CREATED, ContainerPhase.EXITED, ContainerPhase.REMOVING):
        assert unchanged(replace(ROW, phase=phase), replace(RUNS, phase=phase), there=False), "no process is expected"


@pytest.mark.parametrize(
    "row",
    [
        replace(ROW, phase=ContainerPhase.EXITED),
        replace(ROW, phase=None),
        replace(ROW, paused=True),
        replace(ROW, names=("two",)),
        replace(ROW, names=()),
        replace(ROW, id="b"),
    ],
)
def test_listed_otherwise(row: ListedContainer) -> None:
    assert not unchanged(row, RUNS)


def test_what_was_never_told_or_runs_as_another_process() -> None:
    assert not unchanged(ROW, None)
    assert not unchanged(ROW, RUNS, there=False)
    assert not unchanged(ROW, replace(RUNS, pid=8))


def test_of_some_only_that_they_are_there_counts() -> None:
    assert find_unchanged([replace(ROW, id="o", phase=ContainerPhase.CREATED)], {}, {"o", "gone"}, lives) == {"o"}


def test_a_process_is_known_by_its_cgroup() -> None:
    own = Path("/proc/self/cgroup").read_text().splitlines()[0]
    assert lives(own, os.getpid())
    assert not lives("f" * 64, os.getpid())
    assert not lives(own, 0)


@pytest.mark.parametrize("count", [1, LEAST, LEAST + 1, 150, ROUND * LEAST + 7, 5000])
def test_each_has_a_turn_within_a_round(count: int) -> None:
    turns, ids = Turns(), [str(number) for number in range(count)]
    taken = [turns.take(ids) for _ in range(ROUND)]
    assert set().union(*taken) == set(ids)
    assert max(map(len, taken)) <= max(LEAST, count // ROUND + 1)


def test_who_comes_and_who_goes() -> None:
    turns = Turns()
    first = turns.take(["gone", *map(str, range(LEAST * 2))])
    assert "gone" in first
    assert not turns.take(map(str, range(LEAST * 2))) & first
    assert not turns.take([])
    assert turns.take(["new"]) == {"new"}
