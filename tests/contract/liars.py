"""Checkpoint stores that break their promise, to prove that the checks notice."""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar

from crishim.checkpoint.codec import encode
from crishim.checkpoint.file import FileStore
from crishim.checkpoint.memory import MemoryStore
from crishim.checkpoint.record import SandboxRecord
from crishim.checkpoint.sqlite import SqliteStore


class Late(SqliteStore):
    """Acknowledges puts that it carries out when it is closed."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._put_off: dict[str, SandboxRecord] = {}

    async def put(self, record: SandboxRecord) -> None:
        self._put_off[record.id] = record
        await self.put_value("busy", record.id)  # or it were quicker than honest ones, and seldom killed meanwhile

    async def close(self) -> None:
        for record in self._put_off.values():
            await super().put(record)
        await super().close()


class Torn(FileStore):
    """Writes over the old record in two pieces."""

    async def put(self, record: SandboxRecord) -> None:
        data = encode(record)
        middle = len(data) // 2

        def write() -> None:
            with self._file_of(record.id).open("wb", buffering=0) as file:
                file.write(data[:middle])
                time.sleep(0.005)  # longer than all else that a writer does
                file.write(data[middle:])

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
