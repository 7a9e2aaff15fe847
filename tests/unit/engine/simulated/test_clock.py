"""The virtual clock: nothing happens until it is advanced, then in order."""

from __future__ import annotations

import asyncio
import time

import pytest

from crishim.engine.simulated import RealClock, VirtualClock, settle


def test_stands_still() -> None:
    clock = VirtualClock(5)
    assert clock.now_ns() == clock.now_ns() == 5
    clock.advance(1.5)
    assert clock.now_ns() == 1_500_000_005


def test_calls_are_made_at_their_own_times_in_order() -> None:
    clock = VirtualClock(0)
    seen: list[tuple[str, int]] = []
    clock.call_later(2, lambda: seen.append(("b", clock.now_ns())))
    clock.call_later(1, lambda: seen.append(("a", clock.now_ns())))
    clock.call_later(2, lambda: seen.append(("c", clock.now_ns())))
    clock.call_later(9, lambda: seen.append(("late", clock.now_ns())))
    clock.advance(3)
    assert seen == [("a", 10**9), ("b", 2 * 10**9), ("c", 2 * 10**9)]
    assert clock.now_ns() == 3 * 10**9
    assert clock.waiting == 1


def test_a_call_made_by_a_call_counts_from_there() -> None:
    clock = VirtualClock(0)
    seen: list[int] = []

    def again() -> None:
        seen.append(clock.now_ns())
        clock.call_later(1, again)

    clock.call_later(1, again)
    clock.advance(3)
    assert seen == [10**9, 2 * 10**9, 3 * 10**9]


def test_zero_seconds_wait_for_the_next_advance() -> None:
    clock = VirtualClock()
    seen: list[int] = []
    clock.call_later(0, lambda: seen.append(1))
    assert seen == []
    clock.advance(0)
    assert seen == [1]


def test_a_cancelled_call_is_not_made() -> None:
    clock = VirtualClock()
    timer = clock.call_later(1, lambda: pytest.fail("called"))
    timer.cancel()
    timer.cancel()
    assert clock.waiting == 0
    clock.advance(2)


async def test_sleepers_run_at_their_time_and_may_sleep_again() -> None:
    clock = VirtualClock(0)
    seen: list[int] = []

    async def ticker() -> None:
        for _ in range(3):
            await clock.sleep(1)
            seen.append(clock.now_ns())

    task = asyncio.create_task(ticker())
    await clock.run_for(2)
    assert seen == [10**9, 2 * 10**9]
    assert not task.done()
    await clock.run_for(1)
    assert task.done()


async def test_a_cancelled_sleeper_leaves_no_timer() -> None:
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(1))
    await settle()
    assert clock.waiting == 1
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert clock.waiting == 0


async def test_the_real_clock_is_the_machine_s() -> None:
    clock = RealClock()
    before = time.time_ns()
    await clock.sleep(0.001)
    assert before + 1_000_000 <= clock.now_ns() <= time.time_ns()
