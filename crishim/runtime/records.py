"""Sandboxes' records: changed in the index at once, in the store right after, and never written twice at once.

What could not be written (a full disk) is remembered and written with the next change, or by `flush`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from crishim.aiokit.background import Background
from crishim.aiokit.locks import KeyedLocks
from crishim.aiokit.steps import step
from crishim.checkpoint.api import CheckpointStore
from crishim.checkpoint.record import ContainerRecord, SandboxRecord
from crishim.errors import CheckpointFailed
from crishim.runtime.index import Index
from crishim.runtime.objects import Sandbox

log = logging.getLogger(__name__)

Edit = Callable[[SandboxRecord], SandboxRecord]

_WRITE_LIMIT = 30.0
"""Seconds after which a write to the store counts as failed."""


def with_container(container: ContainerRecord) -> Edit:
    """The change that adds or replaces a container's part of its sandbox's record."""
    return lambda record: replace(record, containers={**record.containers, container.id: container})


class Records:
    """The way to every change of a sandbox's record.

    A write that was begun is completed even if its caller is cancelled, so that what the store holds is known.
    """

    def __init__(self, index: Index, store: CheckpointStore, background: Background) -> None:
        self._index = index
        self._store = store
        self._background = background
        self._writing = KeyedLocks()
        self._unsaved: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"<Records {len(self._unsaved)} unsaved>"

    @property
    def unsaved(self) -> tuple[str, ...]:
        """Ids of sandboxes whose record in the index is newer than the store's."""
        return tuple(self._unsaved)

    def add(self, sandbox: Sandbox) -> None:
        """Put a new sandbox into the index; its record is written with its first change, or by `flush`."""
        self._index.put_sandbox(sandbox)
        self._unsaved[sandbox.id] = None

    async def change(self, sandbox_id: str, edit: Edit) -> None:
        """Replace a record by what `edit` makes of it; durable on return. A sandbox that has gone is no error.

        Raises CheckpointFailed; the index then holds the new record all the same.
        """
        sandbox = self._index.sandbox(sandbox_id)
        if sandbox is None:
            return
        record = edit(sandbox.record)
        if record != sandbox.record:
            self._index.put_sandbox(replace(sandbox, record=record))
            self._unsaved[sandbox_id] = None
        if sandbox_id in self._unsaved:
            await self._complete(self._save(sandbox_id), sandbox_id)

    def note(self, sandbox_id: str, edit: Edit) -> None:
        """Change a record in the index alone; it is written with its next change, or by `flush`.

        A sandbox that has gone is no error.
        """
        sandbox = self._index.sandbox(sandbox_id)
        if sandbox is not None:
            self._index.put_sandbox(replace(sandbox, record=edit(sandbox.record)))
            self._unsaved[sandbox_id] = None

    async def try_change(self, sandbox_id: str, edit: Edit) -> None:
        """Like `change`, for what must go on without the store: a failure is told in the log and made good later.

        Only where a record that is behind does no harm: what it still tells of is looked for and not found.
        """
        try:
            await self.change(sandbox_id, edit)
        except CheckpointFailed as error:
            log.warning("sandbox %s: its record is behind until it can be written: %s", sandbox_id[:13], error)

    async def commit(self, sandbox_id: str, edit: Edit) -> None:
        """Like `change`, but the store comes first: the index tells of it only when it is durable.

        Raises CheckpointFailed; the index is as before then.
        """
        await self._complete(self._commit(sandbox_id, edit), sandbox_id)

    async def put_container(self, sandbox_id: str, container: ContainerRecord) -> None:
        """Add or replace a container's part of its sandbox's record. Raises CheckpointFailed."""
        await self.change(sandbox_id, with_container(container))

    async def drop_container(self, sandbox_id: str, container_id: str) -> None:
        """Take a container's part out of its sandbox's record; one that stays in the store is dropped at a start."""
        await self.try_change(
            sandbox_id, lambda r: replace(r, containers={k: v for k, v in r.containers.items() if k != container_id})
        )

    async def delete(self, sandbox_id: str) -> None:
        """Forget a sandbox: in the store, then in the index. Raises CheckpointFailed; it is still listed then."""
        await self._complete(self._delete(sandbox_id), sandbox_id)

    async def flush(self) -> None:
        """Write what could not be written before; what still cannot be is told in the log."""
        for sandbox_id in self.unsaved:
            await self.try_change(sandbox_id, lambda record: record)

    async def _complete(self, work: Coroutine[Any, Any, None], sandbox_id: str) -> None:
        task, cancelled = await self._background.complete(work, name=f"checkpoint of {sandbox_id[:13]}")
        if cancelled:
            raise asyncio.CancelledError from task.exception()
        task.result()

    async def _save(self, sandbox_id: str) -> None:
        async with self._writing.hold(sandbox_id):
            sandbox = self._index.sandbox(sandbox_id)
            if sandbox is None or sandbox_id not in self._unsaved:
                return  # removed meanwhile, or the write before this one took the change along
            await self._put(sandbox.record)

    async def _commit(self, sandbox_id: str, edit: Edit) -> None:
        async with self._writing.hold(sandbox_id):
            sandbox = self._index.sandbox(sandbox_id)
            if sandbox is None:
                return
            await self._put(edit(sandbox.record))
            if (sandbox := self._index.sandbox(sandbox_id)) is not None:
                record = edit(sandbox.record)
                self._index.put_sandbox(replace(sandbox, record=record))

    async def _put(self, record: SandboxRecord) -> None:
        # Before the await, so that a change made during it counts as unsaved again.
        self._unsaved.pop(record.id, None)
        try:
            with step("checkpoint put"):
                await _limited(self._store.put(record))
        except BaseException:
            self._unsaved[record.id] = None
            raise

    async def _delete(self, sandbox_id: str) -> None:
        async with self._writing.hold(sandbox_id):
            self._unsaved[sandbox_id] = None  # if it is not known to be gone, it is written again
            with step("checkpoint delete"):
                await _limited(self._store.delete(sandbox_id))
            del self._unsaved[sandbox_id]
            self._index.drop_sandbox(sandbox_id)


async def _limited(write: Coroutine[Any, Any, None]) -> None:
    try:
        async with asyncio.timeout(_WRITE_LIMIT):
            await write
    except TimeoutError as error:
        raise CheckpointFailed(f"no answer of the checkpoint store within {_WRITE_LIMIT:g} s") from error
