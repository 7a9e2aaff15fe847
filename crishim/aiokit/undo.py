"""Every effect has its undo, registered right after it.

    async with UndoStack("RunPodSandbox", background) as undo:
        container = await undo.effect("engine create", engine.create(name, spec), engine.remove)
        ...
        undo.forget()

Leaving the block by an error or by cancellation undoes the effects in reverse order, shielded from further
cancellation, under a deadline of its own; then the original error goes on. The first undo that fails ends the
undoing, because what comes below it may be needed to try again: `on_incomplete` is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from crishim.aiokit.background import Background

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class UndoFailure:
    """An undo that did not succeed: of what, in which step, and why."""

    what: str
    step: str
    error: BaseException


class UndoStack:
    """The effects of one operation, undone in reverse unless `forget` is called."""

    def __init__(
        self,
        what: str,
        background: Background,
        *,
        deadline: float = 60.0,
        on_incomplete: Callable[[UndoFailure], None] | None = None,
    ) -> None:
        self._what = what
        self._background = background
        self._deadline = deadline
        self._on_incomplete = on_incomplete
        self._undos: list[tuple[str, Callable[[], Awaitable[object] | None]]] = []

    def __repr__(self) -> str:
        return f"<UndoStack {self._what}: {[name for name, _ in self._undos]}>"

    def push(self, step: str, undo: Callable[[], Awaitable[object] | None]) -> None:
        """Register the undo of an effect that just took place. Synchronous undos return None."""
        self._undos.append((step, undo))

    async def effect(self, step: str, do: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[object] | None]) -> T:
        """Run an effect to its end, cancelled or not, so that its outcome is known; register its undo."""
        task, cancelled = await self._background.complete(do, name=f"{self._what}: {step}")
        if task.cancelled():
            raise asyncio.CancelledError
        if (error := task.exception()) is None:
            result = task.result()
            self.push(step, lambda: undo(result))
        if cancelled:
            raise asyncio.CancelledError from error
        return task.result()

    def forget(self) -> None:
        """The operation is complete: nothing will be undone."""
        self._undos.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._undos:
            return
        task, cancelled = await self._background.complete(self._undo_all(), name=f"{self._what}: undo")
        task.result()
        if cancelled and error is None:
            raise asyncio.CancelledError

    async def _undo_all(self) -> None:
        step = ""
        try:
            async with asyncio.timeout(self._deadline):
                while self._undos:
                    step, undo = self._undos[-1]
                    pending = undo()
                    if pending is not None:
                        await pending
                    self._undos.pop()
        except Exception as error:
            # The reason goes to the log whole; the caller sees the original error of the operation.
            self._background.undo_failures += 1
            log.warning("%s: undo of %s failed, left for Stop and Remove: %r", self._what, step, error)
            if self._on_incomplete is not None:
                self._on_incomplete(UndoFailure(self._what, step, error))
