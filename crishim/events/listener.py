"""One listener's backlog: bounded, newest event per object first to stay, and cut only past its bound."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from crishim.errors import ListenerTooSlow

log = logging.getLogger(__name__)

_SOFT = 4
"""A backlog above this part of its bound loses what newer events of the same objects have made old."""


class Listener:
    """An iterator over encoded events, which ends when the hub closes. To be closed with `aclose`."""

    def __init__(self, bound: int, leave: Callable[[Listener], None], dropped: Callable[[int], None]) -> None:
        """`bound`: bytes of the backlog past which the stream is cut. `dropped` is told how many events were lost."""
        self._bound = bound
        self._threshold = bound // _SOFT
        self._leave = leave
        self._dropped = dropped
        self._queue: deque[tuple[str, bytes]] = deque()
        self._size = 0
        self._wake = asyncio.Event()
        self._closing = False
        self._too_slow = False

    def __repr__(self) -> str:
        return f"<Listener {len(self._queue)} events, {self._size} bytes>"

    @property
    def backlog(self) -> tuple[int, int]:
        """Events that were not read yet, and their bytes."""
        return len(self._queue), self._size

    def put(self, object_id: str, encoded: bytes) -> None:
        """Tell of an event."""
        if self._too_slow or self._closing:
            return
        self._queue.append((object_id, encoded))
        self._size += len(encoded)
        if self._size > self._threshold:
            self._keep_newest()
        self._wake.set()

    def _keep_newest(self) -> None:
        """Drop each event after which the same object had another one. Done seldom: the threshold moves on."""
        newest: dict[str, bytes] = {}
        for object_id, encoded in self._queue:
            newest.pop(object_id, None)  # so that it moves to the end
            newest[object_id] = encoded
        lost = len(self._queue) - len(newest)
        self._queue = deque(newest.items())
        self._size = sum(map(len, newest.values()))
        self._threshold = max(self._bound // _SOFT, min(2 * self._size, self._bound))
        if lost:
            self._dropped(lost)
            log.warning("a listener reads slowly: %d events that newer ones have made old are not sent to it", lost)
        if self._size > self._bound:
            log.error("a listener does not read: cut off with %d events unread", len(self._queue))
            self._dropped(len(self._queue))
            self._queue.clear()
            self._size = 0
            self._too_slow = True

    def close(self) -> None:
        """End the stream once what is there has been read."""
        self._closing = True
        self._wake.set()

    def __aiter__(self) -> Listener:
        return self

    async def __anext__(self) -> bytes:
        """The next event. Raises ListenerTooSlow."""
        while not self._queue:
            if self._too_slow:
                raise ListenerTooSlow(
                    "events were not read for so long that they cannot be kept; list and listen again"
                )
            if self._closing:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        _, encoded = self._queue.popleft()
        self._size -= len(encoded)
        return encoded

    async def aclose(self) -> None:
        """The listener has left. May be called twice."""
        self._leave(self)
