"""Where a check finds the store: a class by its name, and a folder."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from crishim.checkpoint.api import CheckpointStore, Loaded
from crishim.checkpoint.record import SandboxRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One check's surroundings."""

    factory: str
    """`module:name` of what makes a store of a state folder; by name, because other processes make it, too."""
    state_dir: Path
    """An existing, empty folder."""

    def make(self) -> CheckpointStore:
        """A store on the folder, not opened."""
        module, _, name = self.factory.partition(":")
        store = getattr(importlib.import_module(module), name)(self.state_dir)
        assert isinstance(store, CheckpointStore), store
        return store

    @asynccontextmanager
    async def store(self) -> AsyncIterator[CheckpointStore]:
        """A store that is open in the block."""
        store = self.make()
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    async def contents(self) -> Loaded:
        """What a server that starts now would load."""
        async with self.store() as store:
            return await store.load()


def by_id(loaded: Loaded) -> dict[str, SandboxRecord]:
    """The records by sandbox; each must be there once."""
    records = {record.id: record for record in loaded.records}
    assert len(records) == len(loaded.records), "a record was loaded twice"
    return records
