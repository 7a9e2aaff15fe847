"""A coroutine that cancels its own task at a chosen await."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator
from types import FrameType
from typing import Any, Literal

Moment = Literal["waiting", "woken", "twice"]
"""When a cancellation arrives.

`waiting`: while what is awaited is still under way. `woken`: when it has just been done but the coroutine has not yet
run again, so that its result is lost. `twice`: like `waiting`, and again at the next await, as an impatient caller
does.
"""
MOMENTS: tuple[Moment, ...] = ("waiting", "woken", "twice")


class Cancelling(Coroutine[Any, Any, object]):
    """Runs another coroutine and counts its suspensions; at the given one it has the task cancelled.

    Only suspensions count: an await that is answered at once is none. Run it as a task of its own.
    """

    def __init__(self, inner: Coroutine[Any, Any, object], point: int, moment: Moment) -> None:
        self.cr_await = inner  # what `frames` follows, as in a coroutine of the language
        self.count = 0
        """Suspensions so far."""
        self.hit = ""
        """Where it was cancelled, and how; empty: not yet."""
        self._inner = inner
        self._point = point
        self._moment = moment

    def send(self, value: Any) -> Any:
        """Run on to the next suspension."""
        return self._suspended(self._inner.send(value))

    def throw(self, *error: Any) -> Any:
        """Run on to the next suspension, from an exception."""
        return self._suspended(self._inner.throw(*error))

    def close(self) -> None:
        """End it."""
        self._inner.close()

    def __await__(self) -> Any:
        raise TypeError("to be run as a task of its own")

    def _suspended(self, awaited: Any) -> Any:
        self.count += 1
        if self.count == self._point:
            self.hit = f"cancelled ({self._moment}) at await {self.count}: {innermost(self._inner)}"
            self._cancel(awaited if self._moment == "woken" else None)
        elif self.count == self._point + 1 and self._moment == "twice":
            self.hit += f", and at the next: {innermost(self._inner)}"
            self._cancel(None)
        return awaited

    def _cancel(self, awaited: asyncio.Future[Any] | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        if awaited is None:
            asyncio.get_running_loop().call_soon(task.cancel)
        else:
            # Comes before the task's own callback, which is added when this suspension reaches the task.
            awaited.add_done_callback(lambda _: task.cancel())


def frames(coroutine: Any) -> Iterator[FrameType]:
    """The frames of a suspended coroutine, the outermost first, as far as they are Python."""
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        frame = frame or getattr(coroutine, "ag_frame", None)
        if frame is not None:
            yield frame
        for name in ("cr_await", "gi_yieldfrom", "ag_await"):
            if hasattr(coroutine, name):
                coroutine = getattr(coroutine, name)
                break
        else:
            return


def innermost(coroutine: Any) -> str:
    """Where a suspended coroutine stands, below the standard library: `file.py:12 in function`."""
    standard = os.path.dirname(os.__file__)
    places = [
        f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        for frame in frames(coroutine)
        if not frame.f_code.co_filename.startswith(standard + os.sep) or "site-packages" in frame.f_code.co_filename
    ]
    return places[-1] if places else repr(coroutine)
