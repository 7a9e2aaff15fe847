"""Changes of a sandbox's record: the index at once, the store right after, in the same order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from crishim.aiokit.steps import step
from crishim.checkpoint.record import ContainerRecord, SandboxRecord
from crishim.runtime.core import Runtime


async def change_record(rt: Runtime, sandbox_id: str, change: Callable[[SandboxRecord], SandboxRecord]) -> None:
    """Replace a sandbox's record by what `change` makes of it; durable on return. A sandbox that has gone is no error.

    Raises CheckpointFailed; the index then holds the new record, and the next change writes it.
    """
    sandbox = rt.index.sandbox(sandbox_id)
    if sandbox is None:
        return
    record = change(sandbox.record)
    if record == sandbox.record:
        return
    rt.index.put_sandbox(replace(sandbox, record=record))
    with step("checkpoint put"):
        # The store takes puts in the order of the calls, and no await lies between the index's change and this one.
        await rt.store.put(record)


async def put_container_record(rt: Runtime, sandbox_id: str, container: ContainerRecord) -> None:
    """Add or replace a container's part of its sandbox's record."""

    def put(record: SandboxRecord) -> SandboxRecord:
        return replace(record, containers={**record.containers, container.id: container})

    await change_record(rt, sandbox_id, put)


async def drop_container_record(rt: Runtime, sandbox_id: str, container_id: str) -> None:
    """Take a container's part out of its sandbox's record."""

    def drop(record: SandboxRecord) -> SandboxRecord:
        return replace(record, containers={k: v for k, v in record.containers.items() if k != container_id})

    await change_record(rt, sandbox_id, drop)
