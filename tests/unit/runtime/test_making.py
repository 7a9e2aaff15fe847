"""A making that others stop: it ends, its caller is told, and they wait for its undoing."""

from __future__ import annotations

import asyncio

import pytest

from crishim.errors import SandboxNotReady
from crishim.runtime.making import Making

Running = dict[str, Making]


async def make(running: Running, log: list[str]) -> None:
    making = Making(running)
    with making.under_way():
        making.known_as("s1")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            log.append("undone")


async def test_stopped_by_two() -> None:
    running: Running = {}
    log: list[str] = []
    task = asyncio.create_task(make(running, log))
    await asyncio.sleep(0)
    making = running["s1"]
    await asyncio.gather(making.stop(), making.stop())
    assert log == ["undone"]
    assert running == {}
    with pytest.raises(SandboxNotReady, match="stopped while"):
        await task
    assert task.cancelling() == 0
    await making.stop()  # over long ago


async def test_a_callers_own_cancellation_stays_one() -> None:
    running: Running = {}
    log: list[str] = []
    task = asyncio.create_task(make(running, log))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (log, running) == (["undone"], {})
