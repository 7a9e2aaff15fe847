"""Checkpoint stores that break their promise, to prove that the checks notice."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from crishim.checkpoint.codec import encode
from crishim.checkpoint.file import FileStore
from crishim.checkpoint.memory import MemoryStore
from crishim.checkpoint.record import SandboxRecord
from crishim.checkpoint.sqlite import SqliteStore


class Late(SqliteStore):
    """Acknowledges a put before it has happened."""

    _under_way: ClassVar[set[asyncio.Task[None]]] = set()

    async def put(self, record: SandboxRecord) -> None:
        task = asyncio.create_task(super().put(record))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        await asyncio.sleep(0)


class Torn(FileStore):
    """Writes over the old record piece by piece."""

    async def put(self, record: SandboxRecord) -> None:
        data = encode(record)

        def write() -> None:
            with self._file_of(record.id).open("wb", buffering=0) as file:
                for start in range(0, len(data), 512):
                    file.write(data[start : start + 512])

        await self._run(write)


class Lagging(MemoryStore):
    """Goes on with a put that was cancelled, after a later one."""

    _under_way: ClassVar[set[asyncio.Task[None]]] = set()

    async def put(self, record: SandboxRecord) -> None:
        try:
            for _ in range(4):
                await asyncio.sleep(0)
            await super().put(record)
        except asyncio.CancelledError:
            task = asyncio.create_task(self._later(record))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
            raise

    async def _later(self, record: SandboxRecord) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        await super().put(record)
