"""Tasks with an owner: each is named, its failure is logged, and nobody leaves while one still runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
log = logging.getLogger(__name__)


class Background:
    """Owns the tasks that may outlive the call which started them (undo, effects being completed, refreshes)."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self.undo_failures = 0
        """How many undoings that ran here (`UndoStack`) did not succeed."""

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        return f"<Background {sorted(t.get_name() for t in self._tasks)}>"

    def start(self, work: Coroutine[Any, Any, T], *, name: str, quiet: bool = False) -> asyncio.Task[T]:
        """Run `work` as a task that is kept alive here. Its failure is logged unless `quiet` (somebody awaits it)."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done_quietly if quiet else self._done)
        return task

    def _done_quietly(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed: %s", task.get_name(), error, exc_info=error)

    async def complete(self, work: Coroutine[Any, Any, T], *, name: str) -> tuple[asyncio.Task[T], bool]:
        """Run `work` to its end even if the caller is cancelled meanwhile.

        Returns the finished task and whether the caller was cancelled: it owes the cancellation to its own caller
        once it has dealt with the result. `work` needs a deadline of its own.
        """
        task = self.start(work, name=name, quiet=True)
        cancelled = False
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError:
                cancelled = True
        return task, cancelled

    async def drain(self, timeout: float) -> list[str]:
        """Wait for all tasks; cancel those still running after `timeout` seconds and return their names."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        while self._tasks and (left := end - loop.time()) > 0:
            await asyncio.wait(tuple(self._tasks), timeout=left)
        late = tuple(self._tasks)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        return sorted(t.get_name() for t in late)
