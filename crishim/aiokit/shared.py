"""One piece of work for all who ask for it at once (a pull, a refresh)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SharedWork(Generic[T]):
    """Runs work once per key however many ask for it. The work is cancelled when the last asker has gone."""

    def __init__(self) -> None:
        self._running: dict[Hashable, tuple[asyncio.Task[T], int]] = {}

    def __len__(self) -> int:
        return len(self._running)

    async def join(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]], *, name: str) -> T:
        """Wait for the key's work, starting it if nobody has. Returns its result or raises its error."""
        if key in self._running:
            task, askers = self._running[key]
        else:
            task, askers = asyncio.create_task(work(), name=name), 0
            task.add_done_callback(lambda done: self._forget(key, done))
        self._running[key] = (task, askers + 1)
        try:
            await asyncio.wait((task,))
        finally:
            if not task.done():
                _, askers = self._running[key]
                self._running[key] = (task, askers - 1)
                if askers == 1:
                    # A newcomer must not join work that is being given up.
                    del self._running[key]
                    task.cancel()
                    while not task.done():
                        # Cancelled again while it ends: a cancellation is on its way to the caller already.
                        with suppress(asyncio.CancelledError):
                            await asyncio.wait((task,))
        return task.result()

    def _forget(self, key: Hashable, done: asyncio.Task[T]) -> None:
        if key in self._running and self._running[key][0] is done:
            del self._running[key]
        if not done.cancelled():
            done.exception()  # seen: the askers may all have been cancelled before they could look
