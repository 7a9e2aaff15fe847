"""Every await is cancelled once, every effect fails once: drivers that run a scenario again and again.

A scenario is made anew for each run by an async context manager that yields a `Case`: what to run, and what must hold
afterwards. Set-up and tear-down lie around the yield, and are neither cancelled nor made to fail.

    @asynccontextmanager
    async def case():
        world = await make_world()                       # fresh engine, store, network

        async def check(outcome):
            assert_listed_or_gone(world)                 # whatever the outcome
            await world.stop_and_remove_all()
            assert world.engine.containers == ()

        yield Case(run=lambda: run_sandbox(world), check=check)
        await world.close()

    async def test_no_cancellation_leaks():
        assert await sweep_cancellations(case) > 10      # how many awaits there were

    @asynccontextmanager
    async def failing_case(faults):
        world = await make_world(faults.engine(SimulatedEngine()), faults.store(MemoryStore()))
        ...

    async def test_no_failure_leaks():
        assert await sweep_failures(failing_case) > 5

Whatever fails carries a note that says where and how the scenario was hit. After each run the drivers themselves
assert that no task and no descriptor is left that was not there before.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from crishim.testing.cancelling import MOMENTS, Cancelling, Moment, innermost
from crishim.testing.effects import WAYS, Faults, Way

__all__ = ["MOMENTS", "WAYS", "Case", "Faults", "Moment", "Outcome", "Way", "sweep_cancellations", "sweep_failures"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    error: BaseException | None
    """None: it returned. CancelledError: it was cancelled."""
    hit: str
    """Where and how it was hit, for messages; empty where it was left alone."""


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario, ready to be run once."""

    run: Callable[[], Coroutine[Any, Any, object]]
    """What is hit."""
    check: Callable[[Outcome], Awaitable[None]]
    """What must hold afterwards, whatever the outcome; nothing fails any more while it runs."""


async def sweep_cancellations(
    make_case: Callable[[], AbstractAsyncContextManager[Case]],
    *,
    moments: tuple[Moment, ...] = MOMENTS,
    limit: float = 30.0,
    most: int = 1000,
    may_swallow: bool = False,
) -> int:
    """Cancel a scenario at its first await, in the next run at its second, and so on until a run is over before.

    Only suspensions of the scenario itself count: an await that is answered at once is none, and tasks that the
    scenario starts are cancelled as far as it passes the cancellation on. `limit`: seconds after which a run counts
    as hung. `most`: awaits after which the sweep counts as endless. `may_swallow`: a cancelled scenario may return,
    or raise something else.

    Returns how many awaits there were. Raises AssertionError for a scenario that fails when left alone, awaits nothing,
    hangs, swallows its cancellation or leaves something; and whatever a check raises.
    """
    await _run_once(make_case(), _Hit(), limit)
    counts = []
    for moment in moments:
        for point in range(1, most + 1):
            hit = _Hit(cancel_at=point, moment=moment)
            outcome = await _run_once(make_case(), hit, limit)
            if not hit.text:
                break
            if not may_swallow and not isinstance(outcome.error, asyncio.CancelledError):
                raise AssertionError(f"the cancellation was swallowed: {outcome}") from outcome.error
        else:
            raise AssertionError(f"no end after {most} awaits")
        counts.append(point - 1)
    assert min(counts) > 0, "the scenario awaits nothing"
    return max(counts)


async def sweep_failures(
    make_case: Callable[[Faults], AbstractAsyncContextManager[Case]],
    *,
    ways: tuple[Way, ...] = WAYS,
    limit: float = 30.0,
    most: int = 1000,
) -> int:
    """Let a scenario's first effect fail, in the next run its second, and so on until a run is over before.

    Effects are calls, during `Case.run`, of objects that were wrapped by the `Faults` given to `make_case`; see there
    for the ways in which they fail. The scenario may raise or not: that is for the check to judge by its outcome.

    Returns how many effects there are when it is left alone. Raises AssertionError like `sweep_cancellations`.
    """
    quiet = Faults(0, "refused")
    await _run_once(make_case(quiet), _Hit(quiet), limit)
    assert quiet.count > 0, "the scenario has no effect"
    for way in ways:
        for point in range(1, most + 1):
            faults = Faults(point, way)
            await _run_once(make_case(faults), _Hit(faults), limit)
            if not faults.hit:
                break
        else:
            raise AssertionError(f"no end after {most} effects")
    return quiet.count


class _Hit:
    """What is done to one run: an effect fails, or it is cancelled, or (with no arguments) neither."""

    def __init__(self, faults: Faults | None = None, *, cancel_at: int = 0, moment: Moment = "waiting") -> None:
        self._faults = faults
        self._cancel_at = cancel_at
        self._moment: Moment = moment
        self._cancelling: Cancelling | None = None

    @property
    def text(self) -> str:
        """What has been done so far; empty: nothing."""
        return (self._faults.hit if self._faults else "") or (self._cancelling.hit if self._cancelling else "")

    def start(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        """Begin the run."""
        self._cancelling = Cancelling(work, self._cancel_at, self._moment)
        if self._faults is not None:
            self._faults.armed = True
        return asyncio.get_running_loop().create_task(self._cancelling, name="scenario")

    def disarm(self) -> None:
        """Let nothing fail any more."""
        if self._faults is not None:
            self._faults.armed = False


async def _run_once(making: AbstractAsyncContextManager[Case], hit: _Hit, limit: float) -> Outcome:
    try:
        async with _nothing_left(), making as case:
            work = case.run()
            task = hit.start(work)
            try:
                await asyncio.wait([task], timeout=limit)
                assert task.done(), f"not over after {limit} s: {innermost(work)}"
            finally:
                hit.disarm()
                if not task.done():
                    task.cancel()
                    await asyncio.wait([task], timeout=limit)
            outcome = Outcome(asyncio.CancelledError() if task.cancelled() else task.exception(), hit.text)
            if isinstance(outcome.error, AssertionError):
                raise outcome.error
            if not hit.text and outcome.error is not None:
                raise AssertionError(f"the scenario fails when left alone: {outcome.error!r}") from outcome.error
            await case.check(outcome)
    except BaseException as error:
        error.add_note(f"The scenario was {hit.text or 'left alone'}.")
        raise
    return outcome


_GRACE = 5.0
"""Seconds in which tasks and descriptors that are about to go must be gone."""


@asynccontextmanager
async def _nothing_left() -> AsyncGenerator[None, None]:
    """Assert at the end of the block that it left no task and no descriptor open."""
    tasks, descriptors = asyncio.all_tasks(), _descriptors()
    yield
    loop = asyncio.get_running_loop()
    end = loop.time() + _GRACE
    while left := _left(tasks, descriptors):
        assert loop.time() < end, f"left behind: {', '.join(left)}"
        await asyncio.sleep(0.005)


def _left(tasks: set[asyncio.Task[Any]], descriptors: dict[str, str]) -> list[str]:
    left = [f"task {task.get_name()} ({innermost(task.get_coro())})" for task in asyncio.all_tasks() - tasks]
    left += [f"descriptor {n} ({what})" for n, what in _descriptors().items() if descriptors.get(n) != what]
    return left


def _descriptors() -> dict[str, str]:
    """Open descriptors of this process and what they are, but for that of the folder in which they are listed."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
    return found
