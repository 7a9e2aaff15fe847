"""RemoveContainer: kill what runs, remove it with its anonymous volumes, forget it."""

from __future__ import annotations

from contextlib import suppress

from crishim.aiokit.steps import step
from crishim.errors import EngineNotFound, InvalidArgument
from crishim.runtime.core import Runtime
from crishim.runtime.log_link import remove_log_link
from crishim.runtime.records import drop_container_record


async def remove_container(rt: Runtime, container_id: str) -> None:
    """Remove a container, running or not (CRI RemoveContainer); an unknown id is success."""
    if not container_id:
        raise InvalidArgument("is missing", field="container_id")
    container = rt.index.find_container(container_id)
    if container is None:
        return
    async with rt.locks.hold(container.id):
        await remove_held(rt, container.id)


async def remove_held(rt: Runtime, container_id: str) -> None:
    """The steps of the removal; the caller holds the container's lock. One that has gone meanwhile is success."""
    container = rt.index.container(container_id)
    if container is None:
        return
    with rt.watch.writing(container_id):
        with suppress(EngineNotFound), step("engine remove", engine=True):
            await rt.link.engine.remove(container_id)
        await remove_log_link(container.log_path, container.live.log_path)
        rt.index.drop_container(container_id)
        await drop_container_record(rt, container.sandbox_id, container_id)
