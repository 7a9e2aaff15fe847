"""StopPodSandbox: containers, then network, then the sandbox's process; as often as it is asked."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

from crishim.aiokit.gather import gather_all
from crishim.aiokit.steps import step
from crishim.checkpoint.record import Phase, SandboxRecord
from crishim.errors import EngineNotFound, InvalidArgument
from crishim.runtime.anchored.carrier import shares_processes
from crishim.runtime.attachment import make_attachment
from crishim.runtime.container_stop import end_container, kill
from crishim.runtime.core import Runtime
from crishim.runtime.objects import Sandbox


async def stop_pod_sandbox(rt: Runtime, sandbox_id: str) -> None:
    """Stop all that runs in a sandbox and give its network back (CRI StopPodSandbox).

    An unknown id is success. A RunPodSandbox under way is cancelled. Fails as long as the network cannot be given
    back; then everything else is stopped, and the call is to be repeated.
    """
    if not sandbox_id:
        raise InvalidArgument("is missing", field="pod_sandbox_id")
    rt.link.need_loaded()
    sandbox = rt.index.find_sandbox(sandbox_id)
    if sandbox is None:
        return
    await cancel_run(rt, sandbox.id)
    async with rt.locks.hold(sandbox.id):
        await stop_held(rt, sandbox.id)


async def cancel_run(rt: Runtime, sandbox_id: str) -> None:
    """End the RunPodSandbox that makes this sandbox, if there is one, and wait until it has undone its work."""
    if (making := rt.running.get(sandbox_id)) is not None:
        await making.stop()


async def stop_held(rt: Runtime, sandbox_id: str) -> None:
    """The steps of the stop; the caller holds the sandbox's lock. A sandbox that has gone meanwhile is success.

    A store that cannot be written does not keep a pod from being stopped: on a full disk that may be what makes room.
    """
    # First of all: no container is created or started in it any more.
    await rt.records.try_change(sandbox_id, _stopped)
    with step("stop containers"):
        await gather_all(end_container(rt, c.id, grace=0) for c in rt.index.containers_of(sandbox_id))
    with step("network detach"):
        await _detach(rt, sandbox_id)
    if (sandbox := rt.index.sandbox(sandbox_id)) is not None and sandbox.anchored:
        # While what it lives in is held: who is killed in between leaves none in namespaces that are nobody's.
        await _end_anchored(rt, sandbox)
        await gather_all((_forget_network(rt, sandbox_id), _unpin(rt, sandbox_id)))
        return
    # The network was given back, so the namespace may go; the kernel takes its time for it.
    await gather_all((_forget_network(rt, sandbox_id), _unpin(rt, sandbox_id), _end_process(rt, sandbox_id)))


def _stopped(record: SandboxRecord) -> SandboxRecord:
    return replace(record, phase=Phase.STOPPED) if record.phase is Phase.READY else record


async def _detach(rt: Runtime, sandbox_id: str) -> None:
    sandbox = rt.index.sandbox(sandbox_id)
    if sandbox is None or (attached := sandbox.record.network) is None:
        return
    # An empty backend marks a pod that somebody else attached, or whose record was lost.
    await rt.network.detach(make_attachment(sandbox), attached if attached.backend else None)


async def _forget_network(rt: Runtime, sandbox_id: str) -> None:
    """Until this is durable a later stop detaches once more, which changes nothing."""
    await rt.records.try_change(sandbox_id, lambda record: replace(record, network=None))


async def _unpin(rt: Runtime, sandbox_id: str) -> None:
    with step("unpin"):
        await rt.namespaces.unpin(sandbox_id)


async def _end_anchored(rt: Runtime, sandbox: Sandbox) -> None:
    if shares_processes(sandbox.record.config):
        with step("stop process"):
            await rt.processes.end(sandbox.id, partial(kill, rt))


async def _end_process(rt: Runtime, sandbox_id: str) -> None:
    sandbox = rt.index.sandbox(sandbox_id)
    if sandbox is None:
        return
    # Not seen yet: it may run.
    if sandbox.seen and not sandbox.running:
        return
    with step("stop process"), rt.watch.writing(sandbox_id):
        with suppress(EngineNotFound):
            # It has nothing to save: it exits on any signal, and at once on this one.
            await kill(rt, sandbox_id)
        await rt.watch.refresh(sandbox_id)
