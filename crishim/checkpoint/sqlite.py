"""The default store: one SQLite database, `checkpoint.db` in the state folder.

Write-ahead log with `synchronous=NORMAL`: a put is a write to the page cache, which survives any death of the
process, and no fsync (docs/decisions/checkpoint-durability.md). The lock is held from open to close, so that a second
server on the same folder is refused instead of overwriting. What is done with a damaged file is in `database`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from crishim.checkpoint.api import CheckpointStore, Loaded
from crishim.checkpoint.codec import encode
from crishim.checkpoint.database import Database
from crishim.checkpoint.errors import StoreUnavailable
from crishim.checkpoint.record import SandboxRecord
from crishim.checkpoint.thread import StoreThread

T = TypeVar("T")


class SqliteStore(CheckpointStore):
    """A checkpoint store in an SQLite database."""

    def __init__(self, state_dir: Path) -> None:
        """`state_dir`: folder of the database; made by `open` if it is not there."""
        self.path = state_dir / "checkpoint.db"
        self._thread = StoreThread(f"checkpoint store {self.path}")
        self._database: Database | None = None

    def __repr__(self) -> str:
        return f"<SqliteStore {self.path}>"

    async def open(self) -> None:
        """Open the database; one that cannot be used is renamed to `checkpoint.db.corrupt-TIME` (or `.newer-TIME`)."""

        def work() -> None:
            self._database = Database(self.path)

        await self._thread.run(work)

    async def load(self) -> Loaded:
        """All records. Bad ones move to the table `set_aside` of the same file."""
        return await self._run(Database.load)

    async def put(self, record: SandboxRecord) -> None:
        """Write a record in one transaction."""
        data = encode(record)
        await self._run(
            lambda database: database.write(
                "INSERT INTO sandboxes VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET record = excluded.record",
                (record.id, data),
            )
        )

    async def delete(self, sandbox_id: str) -> None:
        """Delete a record."""
        await self._run(lambda database: database.write("DELETE FROM sandboxes WHERE id = ?", (sandbox_id,)))

    async def get_value(self, key: str) -> str | None:
        """Read a value of the node."""
        return await self._run(lambda database: database.value(key))

    async def put_value(self, key: str, value: str) -> None:
        """Write a value of the node in one transaction."""
        await self._run(
            lambda database: database.write(
                "INSERT INTO node_values VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (key, value),
            )
        )

    async def close(self) -> None:
        """Close the database, which moves the write-ahead log into it."""

        def last() -> None:
            if self._database is not None:
                self._database.close()

        await self._thread.close(last)

    async def _run(self, work: Callable[[Database], T]) -> T:
        def in_thread() -> T:
            if self._database is None:
                raise StoreUnavailable(f"{self.path} is not open")
            try:
                return work(self._database)
            except sqlite3.Error as error:
                raise StoreUnavailable(f"{self.path}: {error}") from error

        return await self._thread.run(in_thread)
