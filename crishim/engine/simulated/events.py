"""The simulated engine's event stream: every listener has a queue, and the stream breaks when the engine goes down."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Literal, Self

from crishim.engine.values import EngineEvent
from crishim.errors import EngineUnavailable


class Listener(AsyncIterator[EngineEvent]):
    """One open stream."""

    def __init__(self) -> None:
        self._queue: deque[EngineEvent] = deque()
        self._broken: str | None = None
        self._waiter: asyncio.Future[None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> EngineEvent:
        """The next event; EngineUnavailable once the stream is broken and what came before was read."""
        while not self._queue:
            if self._broken is not None:
                raise EngineUnavailable(self._broken)
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._queue.popleft()

    def put(self, event: EngineEvent) -> None:
        """Hand over an event."""
        self._queue.append(event)
        self._wake()

    def close(self, reason: str) -> None:
        """Break the stream."""
        self._broken = reason
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class EventHub:
    """Hands each event to all listeners, unless it is to be lost."""

    def __init__(self) -> None:
        self.listeners: set[Listener] = set()
        self.to_drop = 0
        """How many of the next events nobody will see."""
        self.to_garble = 0
        """How many of the next ones after those nobody will be able to read."""

    def emit(
        self,
        kind: Literal["container", "image", "daemon", "unread"],
        action: str,
        object_id: str,
        time: int,
        attributes: Mapping[str, str],
    ) -> None:
        """Tell that something happened to an object."""
        if self.to_drop:
            self.to_drop -= 1
            return
        if self.to_garble:
            self.to_garble -= 1
            kind, action, object_id, time, attributes = "unread", "", "", 0, {}
        if self.listeners:
            event = EngineEvent(kind=kind, action=action, id=object_id, time=time, attributes=attributes)
            for listener in self.listeners:
                listener.put(event)

    def break_all(self, reason: str) -> None:
        """Break every stream."""
        for listener in self.listeners:
            listener.close(reason)
        self.listeners.clear()
