"""One thread that does a store's blocking work, in the order in which it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from crishim.checkpoint.errors import StoreUnavailable

T = TypeVar("T")


class StoreThread:
    """Runs functions one after the other.

    A call that is cancelled before its turn is never run; one whose turn has come runs to its end, unseen. So nothing
    is done by halves, and nothing is done late: what was asked first is over before what was asked next begins.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._closed = False

    async def run(self, function: Callable[[], T]) -> T:
        """Run a function and return its result. Raises StoreUnavailable after `close`."""
        if self._closed:
            raise StoreUnavailable(f"{self._name} is closed")
        return await asyncio.get_running_loop().run_in_executor(self._executor, function)

    async def close(self, last: Callable[[], None]) -> None:
        """Refuse further calls, finish those that were made, run `last`, end the thread. The second time it does
        nothing."""
        if self._closed:
            return
        self._closed = True
        done = asyncio.get_running_loop().run_in_executor(self._executor, last)
        try:
            await asyncio.shield(done)
        finally:
            # Not waited for when cancelled: `last` is in the queue and is run in any case.
            self._executor.shutdown(wait=done.done())
