"""Owned tasks: named, completed, told when they fail, and gone at the end."""

from __future__ import annotations

import asyncio
import logging

import pytest

from crishim.aiokit.background import Background


async def fail() -> None:
    await asyncio.sleep(0)
    raise KeyError("x")


async def test_a_failure_is_logged_unless_somebody_awaits_it(caplog: pytest.LogCaptureFixture) -> None:
    background = Background()
    background.start(fail(), name="loud")
    with pytest.raises(KeyError):
        await background.start(fail(), name="still", quiet=True)
    await asyncio.sleep(0)
    assert [record.getMessage() for record in caplog.records] == ["loud failed: 'x'"]
    assert caplog.records[0].levelno == logging.ERROR
    assert len(background) == 0


async def test_complete_tells_of_the_result_and_of_the_cancellation() -> None:
    background = Background()

    async def work() -> int:
        await asyncio.sleep(0.001)
        return 7

    task, cancelled = await background.complete(work(), name="work")
    assert (task.result(), cancelled) == (7, False)
    caller = asyncio.create_task(background.complete(work(), name="work"))
    for _ in range(3):
        await asyncio.sleep(0)
        caller.cancel()
    task, cancelled = await caller
    assert (task.result(), cancelled) == (7, True)


async def test_drain_waits_then_cancels_and_names_the_late() -> None:
    background = Background()
    done: list[str] = []

    async def short() -> None:
        await asyncio.sleep(0.001)
        done.append("short")

    background.start(short(), name="short")
    background.start(asyncio.Event().wait(), name="for ever")
    assert repr(background) == "<Background ['for ever', 'short']>"
    assert await background.drain(0.02) == ["for ever"]
    assert done == ["short"]
    assert len(background) == 0
    assert await background.drain(1) == []


async def test_drain_waits_for_what_is_started_meanwhile() -> None:
    background = Background()
    done: list[int] = []

    async def chain(left: int) -> None:
        await asyncio.sleep(0)
        done.append(left)
        if left:
            background.start(chain(left - 1), name="chain")

    background.start(chain(3), name="chain")
    assert await background.drain(5) == []
    assert done == [3, 2, 1, 0]
