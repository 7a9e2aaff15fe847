"""A store that forgets everything with the process: for tests and for harnesses whose pods live no longer than the
server."""

from __future__ import annotations

from pathlib import Path

from crishim.checkpoint.api import CheckpointStore, Loaded, SetAside
from crishim.checkpoint.codec import decode, encode
from crishim.checkpoint.errors import CheckpointError, StoreUnavailable
from crishim.checkpoint.record import SandboxRecord


class MemoryStore(CheckpointStore):
    """Keeps the bytes that others would write, so that what cannot be written fails here, too."""

    def __init__(self, state_dir: Path | None = None) -> None:
        """`state_dir` is not used; every store takes it."""
        self._records: dict[str, bytes] = {}
        self._values: dict[str, str] = {}
        self._open = False

    def __repr__(self) -> str:
        return f"<MemoryStore records={len(self._records)}>"

    async def open(self) -> None:
        """Begin empty; after `close`, with what was there."""
        self._open = True

    async def load(self) -> Loaded:
        """All records. One that was made unreadable (`damage`) is set aside like elsewhere."""
        self._check()
        records, aside = [], []
        for sandbox_id, data in tuple(self._records.items()):
            try:
                records.append(decode(data, sandbox_id))
            except CheckpointError as error:
                del self._records[sandbox_id]
                aside.append(SetAside(name=sandbox_id, reason=str(error), kept_at="nowhere: memory"))
        return Loaded(records=tuple(records), set_aside=tuple(aside))

    async def put(self, record: SandboxRecord) -> None:
        """Keep a record."""
        self._check()
        self._records[record.id] = encode(record)

    async def delete(self, sandbox_id: str) -> None:
        """Forget a record."""
        self._check()
        self._records.pop(sandbox_id, None)

    async def get_value(self, key: str) -> str | None:
        """A value of the node."""
        self._check()
        return self._values.get(key)

    async def put_value(self, key: str, value: str) -> None:
        """Keep a value of the node."""
        self._check()
        self._values[key] = value

    async def close(self) -> None:
        """Refuse calls until `open`. The records stay, so that a test can restart a server on them."""
        self._open = False

    def damage(self, sandbox_id: str, data: bytes) -> None:
        """Put bytes in the place of a record: for tests of what a bad one does."""
        self._records[sandbox_id] = data

    def _check(self) -> None:
        if not self._open:
            raise StoreUnavailable("the memory store is not open")
