"""An event loop that never waits: its time jumps to the next timer, and threads' work is done on the spot."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from crishim.engine.simulated.clock import Clock, Timer

T = TypeVar("T")
_PATIENCE = 5.0
"""Real seconds for a thread to finish, where the loop has nothing else to wait for."""


class _Selector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is not None:
            self.now += max(timeout, 0)
            return ready
        # No timer: only a real thread can go on from here, as the one that shuts the executor down with the loop.
        ready = super().select(_PATIENCE)
        assert ready, "the test waits for something that nobody will do"
        return ready


class _OnTheSpot(ThreadPoolExecutor):
    """With real threads the time would jump while they work."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Limits of minutes are over at once, and a test that waits for ever fails instead."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)
        self.set_default_executor(_OnTheSpot())

    def time(self) -> float:
        return self._clock.now

    @property
    def has_work(self) -> bool:
        """Whether there is anything to run without waiting."""
        return bool(self._ready)  # type: ignore[attr-defined] # the base class's own


async def idle() -> None:
    """Return when no task can run but the caller: all others wait for a timer, or for each other."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    while True:
        await asyncio.sleep(0)
        if not loop.has_work:
            return


class LoopClock(Clock):
    """The simulated engine's clock: the running loop's time."""

    EPOCH_NS = 1_700_000_000 * 10**9

    def now_ns(self) -> int:
        return self.EPOCH_NS + round(asyncio.get_running_loop().time() * 1e9)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)
