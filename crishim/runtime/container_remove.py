"""RemoveContainer: kill what runs, remove it with its anonymous volumes, forget it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from crishim.aiokit.steps import step
from crishim.errors import EngineNotFound, InvalidArgument
from crishim.runtime.anchored.shifted import release_shifted
from crishim.runtime.container_stop import kill
from crishim.runtime.core import Runtime


async def remove_container(rt: Runtime, container_id: str) -> None:
    """Remove a container, running or not (CRI RemoveContainer); an unknown id is success.

    A call that is cancelled lets the removal come to its end.
    """
    if not container_id:
        raise InvalidArgument("is missing", field="container_id")
    rt.link.need_loaded()
    container = rt.index.find_container(container_id)
    if container is not None:
        await remove_known(rt, container.id)


async def remove_known(rt: Runtime, container_id: str) -> None:
    """Remove a container by full id; one that has gone meanwhile is success. A second caller waits for the first."""
    async with rt.locks.hold(container_id):
        task, cancelled = await rt.background.complete(_remove(rt, container_id), name=f"remove {container_id[:13]}")
        if cancelled:
            raise asyncio.CancelledError from task.exception()
        task.result()


async def _remove(rt: Runtime, container_id: str) -> None:
    container = rt.index.container(container_id)
    if container is None:
        return
    with rt.watch.writing(container_id):
        if container.running:
            # The engine's removal would take away with it what the container said last.
            with suppress(EngineNotFound):
                await kill(rt, container_id)
        await rt.logs.finish(container_id)
        with suppress(EngineNotFound), step("engine remove", engine=True):
            await rt.link.engine.remove(container_id)
        await release_shifted(rt.namespaces, rt.index.sandbox(container.sandbox_id), container_id)
        await rt.logs.drop(container_id)
        rt.index.drop_container(container_id)
        await rt.records.drop_container(container.sandbox_id, container_id)
    await rt.volumes.release(container.record)
