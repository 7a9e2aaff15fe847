"""Where the simulated engine takes its time from: the machine's clock, or one that a test moves by hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Do not make the call. No error when it was made or cancelled already."""


class Clock(ABC):
    """Time of day and the passing of time."""

    @abstractmethod
    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""

    @abstractmethod
    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` once so many seconds have passed. Needs a running event loop."""

    async def sleep(self, seconds: float) -> None:
        """Return once so many seconds have passed. May be cancelled."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            timer.cancel()


class RealClock(Clock):
    """The machine's clock."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return time.time_ns()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` by the running event loop's timer."""
        return asyncio.get_running_loop().call_later(seconds, callback)


class _VirtualTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualClock(Clock):
    """A clock that stands still until it is advanced. Calls that are due at the same time are made in their order."""

    EPOCH_NS = 1_700_000_000 * 10**9

    def __init__(self, now_ns: int = EPOCH_NS) -> None:
        self._now = now_ns
        self._due: list[tuple[int, int, _VirtualTimer]] = []
        self._order = itertools.count()

    def __repr__(self) -> str:
        return f"<VirtualClock now={self._now} waiting={self.waiting}>"

    @property
    def waiting(self) -> int:
        """How many sleepers and timers wait for this clock: what a test waits for before it advances it."""
        return sum(1 for _, _, timer in self._due if timer.callback is not None)

    def now_ns(self) -> int:
        """Nanoseconds since the epoch, as far as this clock was advanced."""
        return self._now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` when the clock is advanced so far; never from within this method, even for 0 seconds."""
        timer = _VirtualTimer(callback)
        heapq.heappush(self._due, (self._now + max(0, round(seconds * 1e9)), next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Move the time on and make the calls that are due, each at its own time, those that they add included.

        Tasks woken by it run when the caller next awaits; a task that then sleeps again counts from the new time. Where
        tasks sleep repeatedly, use `run_for`.
        """
        end = self._now + round(seconds * 1e9)
        while self._fire_next(end):
            pass
        self._now = end

    async def run_for(self, seconds: float) -> None:
        """Like `advance`, but tasks that are woken run at their time and may sleep again."""
        end = self._now + round(seconds * 1e9)
        await settle()
        while self._fire_next(end):
            await settle()
        self._now = max(end, self._now)
        await settle()

    def _fire_next(self, end: int) -> bool:
        """Make the next call that is due until `end`; whether there was one."""
        while self._due and self._due[0][0] <= end:
            due, _, timer = heapq.heappop(self._due)
            if timer.callback is not None:
                self._now = max(self._now, due)
                callback, timer.callback = timer.callback, None
                callback()
                return True
        return False


async def settle(turns: int = 20) -> None:
    """Let tasks that can run do so, for some turns of the event loop: each await that is ready takes one or two."""
    for _ in range(turns):
        await asyncio.sleep(0)
