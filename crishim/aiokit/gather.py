"""Side by side, to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")


async def gather_two(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """`gather_all` of two; returns what both return."""
    a, b = asyncio.ensure_future(first), asyncio.ensure_future(second)
    await gather_all((a, b))
    return a.result(), b.result()


async def gather_all(work: Iterable[Awaitable[object]]) -> None:
    """Await all of it; the first error is raised when every one has ended. Cancelled, all are cancelled and awaited."""
    tasks = [asyncio.ensure_future(w) for w in work]
    cancelled = False
    while pending := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError:
            # Again if it is cancelled again: none of them is left behind.
            cancelled = True
            for task in pending:
                task.cancel()
    errors = [task.exception() for task in tasks if not task.cancelled()]
    if cancelled:
        raise asyncio.CancelledError
    for error in errors:
        if error is not None:
            raise error
