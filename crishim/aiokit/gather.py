"""Side by side, to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any


async def gather_all(work: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Await all of it; the first error is raised when every one has ended. Cancelled, all are cancelled and awaited."""
    tasks = [asyncio.ensure_future(w) for w in work]
    if not tasks:
        return
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    errors = [task.exception() for task in tasks if not task.cancelled()]
    for error in errors:
        if error is not None:
            raise error
