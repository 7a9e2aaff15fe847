"""RemovePodSandbox: stop what runs, then take away containers, sandbox, record and name."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from crishim.aiokit.gather import gather_all, gather_two
from crishim.aiokit.steps import step
from crishim.checkpoint.record import Phase
from crishim.errors import EngineNotFound, InvalidArgument
from crishim.runtime.anchored.object import remove_object
from crishim.runtime.container_remove import remove_known
from crishim.runtime.core import Runtime
from crishim.runtime.sandbox_stop import cancel_run, stop_held


async def remove_pod_sandbox(rt: Runtime, sandbox_id: str) -> None:
    """Remove a sandbox and all its containers (CRI RemovePodSandbox); an unknown id is success.

    Fails as long as the network cannot be given back: nothing that is needed for it is removed before.
    """
    if not sandbox_id:
        raise InvalidArgument("is missing", field="pod_sandbox_id")
    rt.link.need_loaded()
    sandbox = rt.index.find_sandbox(sandbox_id)
    if sandbox is None:
        return
    await cancel_run(rt, sandbox.id)
    await take_away(rt, sandbox.id)


async def take_away(rt: Runtime, sandbox_id: str) -> None:
    """Stop and remove a sandbox whatever state it is in; also the undo of RunPodSandbox. May be repeated."""
    async with rt.locks.hold(sandbox_id):
        await stop_held(rt, sandbox_id)
        with step("remove containers"):
            await gather_all(remove_known(rt, c.id) for c in rt.index.containers_of(sandbox_id))
        if rt.index.sandbox(sandbox_id) is None:
            return
        with rt.watch.writing(sandbox_id):
            # The kernel takes as long for the one as the engine for the other. The record is enough to repeat both.
            await gather_two(_settle(rt, sandbox_id), _remove_object(rt, sandbox_id))
            await rt.records.delete(sandbox_id)


async def _settle(rt: Runtime, sandbox_id: str) -> None:
    with step("network settle"):
        await rt.network.settle(sandbox_id)


async def _remove_object(rt: Runtime, sandbox_id: str) -> None:
    sandbox = rt.index.sandbox(sandbox_id)
    if sandbox is not None and sandbox.anchored:
        await remove_object(rt.link.engine, sandbox)
        return
    with suppress(EngineNotFound), step("engine remove", engine=True):
        await rt.link.engine.remove(sandbox_id)


async def unmake(rt: Runtime, sandbox_id: str) -> None:
    """Undo a RunPodSandbox. What remains if that fails is a leftover that nobody was told of, even if it was READY."""
    await rt.records.try_change(sandbox_id, lambda record: replace(record, phase=Phase.CREATING))
    await take_away(rt, sandbox_id)
