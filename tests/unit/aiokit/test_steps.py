"""Timed steps: what was done when, and how much of a call was ours."""

from __future__ import annotations

import asyncio

import pytest

from crishim.aiokit import steps
from crishim.aiokit.steps import Call, Step

Spans = list[tuple[int, int, bool]]


@pytest.mark.parametrize(
    ("spans", "engine"),
    [
        ([], 0),
        ([(10, 20, False)], 0),
        ([(10, 20, True)], 10),
        ([(10, 20, True), (30, 50, True)], 30),
        ([(10, 30, True), (20, 40, True)], 30),
        ([(10, 50, True), (20, 30, True)], 40),
        ([(20, 30, True), (10, 50, True)], 40),
        ([(10, 20, True), (15, 18, False)], 10),
        ([(90, 0, True)], 10),
        ([(90, 200, True)], 10),
        ([(150, 200, True)], 0),
        ([(150, 0, True)], 0),
    ],
    ids=str,
)
def test_the_engines_time_is_counted_once(spans: Spans, engine: int) -> None:
    call = Call("Test", start=0, end=100, steps=[Step("x", start, end, is_engine) for start, end, is_engine in spans])
    assert (call.engine_ns(), call.own_ns()) == (engine, 100 - engine)


async def test_steps_of_all_tasks_of_a_call_are_its_own() -> None:
    calls: list[Call] = []

    async def work(name: str) -> None:
        with steps.step(name, engine=name == "b"):
            await asyncio.sleep(0)

    async def verb(name: str) -> None:
        with steps.call(name, calls.append):
            await asyncio.gather(work("a"), work("b"))

    await asyncio.gather(verb("one"), verb("two"))
    assert [call.verb for call in calls] == ["one", "two"]
    for call in calls:
        assert [(step.name, step.engine) for step in call.steps] == [("a", False), ("b", True)]
        assert all(call.start <= step.start <= step.end <= call.end for step in call.steps)
    await work("outside any call")


def test_a_call_that_fails_is_told_too() -> None:
    calls: list[Call] = []
    with pytest.raises(KeyError), steps.call("Test", calls.append), steps.step("a"):
        raise KeyError
    assert calls[0].steps[0].end > 0
