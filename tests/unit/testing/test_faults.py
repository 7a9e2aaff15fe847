"""The sweep drivers find what they are made to find, and say where."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from crishim.checkpoint.memory import MemoryStore
from crishim.engine.api import Engine
from crishim.engine.simulated import SimulatedEngine
from crishim.engine.values import ContainerSpec
from crishim.errors import CheckpointFailed, EngineError, EngineUnavailable
from crishim.testing.checkpoint_contract.records import make_record
from crishim.testing.faults import Case, Faults, Outcome, sweep_cancellations, sweep_failures

SPEC = ContainerSpec(image="busybox", labels={})
Run = Callable[[], Coroutine[Any, Any, object]]


def simple(run: Run, seen: list[Outcome] | None = None) -> Callable[[], AbstractAsyncContextManager[Case]]:
    """A case with nothing around it; `seen` collects the outcomes."""

    @asynccontextmanager
    async def case() -> AsyncGenerator[Case, None]:
        async def check(outcome: Outcome) -> None:
            if seen is not None:
                seen.append(outcome)

        yield Case(run=run, check=check)

    return case


async def test_every_await_is_cancelled_at_every_moment() -> None:
    outcomes: list[Outcome] = []

    async def three() -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    assert await sweep_cancellations(simple(three, outcomes)) == 3
    # Alone, then for each of three moments three cancelled runs and the one that is over before.
    assert [isinstance(outcome.error, asyncio.CancelledError) for outcome in outcomes] == [False] + 3 * (
        3 * [True] + [False]
    )
    assert all(("cancelled" in outcome.hit) == (outcome.error is not None) for outcome in outcomes)
    assert "test_faults.py" in outcomes[1].hit
    assert "three" in outcomes[1].hit


async def test_woken_loses_a_result_that_was_there() -> None:
    made: list[str] = []
    lost: list[str] = []

    async def run() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def answer() -> None:
            if not future.done():
                made.append("x")
                future.set_result("x")

        asyncio.get_running_loop().call_later(0.001, answer)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                lost.append(future.result())
            raise

    await sweep_cancellations(simple(run), moments=("waiting",))
    assert lost == []
    await sweep_cancellations(simple(run), moments=("woken",))
    assert lost == ["x"]


async def test_twice_interrupts_the_cleaning_up() -> None:
    cleaned: list[bool] = []

    async def run() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            cleaned.append(False)
            await asyncio.sleep(0)
            cleaned[-1] = True

    await sweep_cancellations(simple(run), moments=("waiting",))
    # alone; at the first: cleaned all the same; at the second: torn; over before
    assert cleaned == [True, True, False, True]
    cleaned.clear()
    await sweep_cancellations(simple(run), moments=("twice",))
    assert cleaned == [True, False, False, True]


async def test_a_leak_of_the_scenario_is_found_with_its_place() -> None:
    @asynccontextmanager
    async def case() -> AsyncGenerator[Case, None]:
        engine = SimulatedEngine()

        async def run() -> None:
            container = await engine.create("name", SPEC)
            try:
                await engine.start(container)
            finally:
                await engine.remove(container)

        async def check(outcome: Outcome) -> None:
            assert engine.containers == (), outcome

        yield Case(run=run, check=check)

    with pytest.raises(AssertionError) as caught:
        await sweep_cancellations(case)
    assert any("gate.py" in note and "await 2" in note for note in caught.value.__notes__)


async def hang() -> None:
    await asyncio.get_running_loop().create_future()


async def swallow() -> None:
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        return


async def replace() -> None:
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        raise ValueError("instead") from None


async def fail() -> None:
    await asyncio.sleep(0)
    raise ValueError("always")


async def nothing() -> None:
    pass


KEPT: set[asyncio.Task[None]] = set()


async def orphan() -> None:
    KEPT.add(asyncio.create_task(hang(), name="orphan"))
    await asyncio.sleep(0)


async def descriptor() -> None:
    os.dup(0)
    await asyncio.sleep(0)


async def endless() -> None:
    while True:  # noqa: ASYNC110 - it waits for nothing, that is the point
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("run", "complaint"),
    [
        (hang, "not over after"),
        (endless, "not over after"),
        (swallow, "was swallowed"),
        (replace, "was swallowed"),
        (fail, "fails when left alone"),
        (nothing, "awaits nothing"),
        (orphan, "left behind: task orphan"),
        (descriptor, "left behind: descriptor"),
    ],
)
async def test_what_the_driver_itself_finds(run: Run, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crishim.testing.faults._GRACE", 0.05)
    before = set(os.listdir("/proc/self/fd"))
    try:
        with pytest.raises(AssertionError, match=complaint):
            await sweep_cancellations(simple(run), limit=0.1)
    finally:
        for task in KEPT:
            task.cancel()
        KEPT.clear()
        for number in set(os.listdir("/proc/self/fd")) - before:
            if os.path.exists(f"/proc/self/fd/{number}"):
                os.close(int(number))


async def test_swallowing_can_be_allowed() -> None:
    assert await sweep_cancellations(simple(swallow), may_swallow=True) == 1


async def make_pod(engine: Engine, store: MemoryStore) -> None:
    """A scenario that cleans up after itself."""
    container = await engine.create("name", SPEC)
    try:
        await store.put(make_record("pod"))
        await engine.start(container)
    except Exception:
        await engine.remove(container)
        raise


async def test_every_effect_fails_in_every_way() -> None:
    outcomes: list[Outcome] = []
    left: list[int] = []

    @asynccontextmanager
    async def case(faults: Faults) -> AsyncIterator[Case]:
        engine, store = SimulatedEngine(), MemoryStore()
        failing, failing_store = faults.engine(engine), faults.store(store)
        await failing_store.open()  # not during the run, so no effect
        assert isinstance(failing, SimulatedEngine)

        async def check(outcome: Outcome) -> None:
            outcomes.append(outcome)
            left.append(len(engine.containers))
            await failing.list_containers()  # nothing fails any more

        yield Case(run=lambda: make_pod(failing, failing_store), check=check)  # type: ignore[arg-type]
        await failing_store.close()

    assert await sweep_failures(case) == 3
    errors = [type(outcome.error) for outcome in outcomes]
    refused, lost, down = errors[1:5], errors[5:9], errors[9:]
    none = type(None)
    assert refused == [EngineError, CheckpointFailed, EngineError, none]
    assert lost == [EngineUnavailable, CheckpointFailed, EngineUnavailable, none]
    assert down == [EngineError, EngineError, EngineError, none]
    # Alone it stays; lost at creation, and with everything down from the second effect on, it is left.
    assert left == [1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 1]
    assert outcomes[2].hit == "effect 2, store.put: refused"


async def test_contexts_are_effects_when_entered() -> None:
    @asynccontextmanager
    async def case(faults: Faults) -> AsyncIterator[Case]:
        engine = SimulatedEngine()
        failing = faults.engine(engine)

        async def run() -> None:
            async with failing.pull("app:1", None) as progress:
                async for _ in progress:
                    pass

        async def check(outcome: Outcome) -> None:
            assert (len(engine.images) == 3) == (outcome.error is None)
            assert engine.pulls_under_way == 0

        yield Case(run=run, check=check)

    assert await sweep_failures(case) == 1


async def test_a_scenario_without_effect_is_no_proof() -> None:
    @asynccontextmanager
    async def case(faults: Faults) -> AsyncIterator[Case]:
        async def check(_: Outcome) -> None:
            pass

        yield Case(run=nothing, check=check)

    with pytest.raises(AssertionError, match="no effect"):
        await sweep_failures(case)


async def test_wrapped_objects_are_otherwise_as_before() -> None:
    engine = SimulatedEngine()
    wrapped = Faults(1, "refused").engine(engine)
    assert isinstance(wrapped, SimulatedEngine)
    assert wrapped.calls is engine.calls
    wrapped.pulls_under_way = 7
    assert engine.pulls_under_way == 7
    assert await wrapped.create("name", SPEC)  # not armed
    await wrapped.close()
