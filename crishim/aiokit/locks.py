"""A lock per key that exists only while somebody holds it or waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class KeyedLocks:
    """Fair locks by key, e.g. one per sandbox."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    def __repr__(self) -> str:
        return f"<KeyedLocks {sorted(self._locks)}>"

    def locked(self, key: str) -> bool:
        """Whether somebody holds the key's lock at this moment."""
        return key in self._locks and self._locks[key][0].locked()

    def keys(self) -> tuple[str, ...]:
        """Keys whose lock somebody holds or waits for."""
        return tuple(self._locks)

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        """Hold the key's lock inside the block."""
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[key]
            if users == 1:
                del self._locks[key]
            else:
                self._locks[key] = (lock, users - 1)
