"""The way into the simulated engine: calls are counted, may be struck by a fault, and end when the engine goes down."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from crishim.engine.simulated.clock import Clock
from crishim.engine.simulated.faults import Drop, Fail, Fault, Hang, Script, Slow
from crishim.errors import EngineUnavailable

T = TypeVar("T")


class Gate:
    """Carries calls in and answers out. Before each effect, and between it and the answer, other tasks may run."""

    def __init__(self, clock: Clock) -> None:
        self.calls: Counter[str] = Counter()
        """How often each method was called."""
        self.script = Script()
        self.hanging = 0
        """How many calls hang at this moment."""
        self._clock = clock
        self._down: str | None = None
        self._held: set[asyncio.Future[Any]] = set()
        self._watchers: set[tuple[str, int, asyncio.Future[None]]] = set()

    @property
    def up(self) -> bool:
        """Whether calls get through."""
        return self._down is None

    def enter(self, method: str, *args: Any, kwargs: Mapping[str, Any] | None = None) -> Fault | None:
        """Count a call and find the fault that strikes it. Raises EngineUnavailable while the engine is down."""
        self.calls[method] += 1
        for wanted, count, told in tuple(self._watchers):
            if wanted == method and self.calls[method] >= count and not told.done():
                told.set_result(None)
        self.check()
        return self.script.take(method, args, kwargs or {})

    def check(self) -> None:
        """Raise EngineUnavailable if the engine is down."""
        if self._down is not None:
            raise EngineUnavailable(self._down)

    async def answer(
        self, method: str, effect: Callable[[], T], *args: Any, kwargs: Mapping[str, Any] | None = None
    ) -> T:
        """One call from its start to its answer, whose effect is the given function."""
        fault = self.enter(method, *args, kwargs=kwargs)
        await asyncio.sleep(0)
        await self.before(fault)
        self.check()
        result = effect()
        await asyncio.sleep(0)
        await self.after(fault)
        self.check()
        return result

    async def before(self, fault: Fault | None) -> None:
        """What a fault does before the effect."""
        match fault:
            case Fail(error):
                raise error
            case Slow(seconds):
                await self._delay(seconds)
            case Hang(after_effect=False):
                await self._hang()
            case _:
                pass

    async def after(self, fault: Fault | None) -> None:
        """What a fault does after the effect."""
        match fault:
            case Drop(error):
                raise error
            case Hang(after_effect=True):
                await self._hang()
            case _:
                pass

    async def hold(self, future: asyncio.Future[T]) -> T:
        """Wait for an answer, or EngineUnavailable if the engine goes down meanwhile."""
        self._held.add(future)
        try:
            return await future
        finally:
            self._held.discard(future)
            if future.done() and not future.cancelled():
                future.exception()  # seen, also where the caller was cancelled at the same moment

    async def called(self, method: str, count: int) -> None:
        """Return once a method was called so often."""
        if self.calls[method] >= count:
            return
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        watcher = (method, count, told)
        self._watchers.add(watcher)
        try:
            await told
        finally:
            self._watchers.discard(watcher)

    def shut(self, reason: str) -> None:
        """Let no call through, and end those under way."""
        self._down = reason
        for future in tuple(self._held):
            if not future.done():
                future.set_exception(EngineUnavailable(reason))

    def reopen(self) -> None:
        """Let calls through again."""
        self._down = None

    async def _hang(self) -> None:
        self.hanging += 1
        try:
            await self.hold(asyncio.get_running_loop().create_future())
        finally:
            self.hanging -= 1

    async def _delay(self, seconds: float) -> None:
        elapsed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(seconds, lambda: None if elapsed.done() else elapsed.set_result(None))
        try:
            await self.hold(elapsed)
        finally:
            timer.cancel()
