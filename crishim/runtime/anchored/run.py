"""RunPodSandbox of an anchored pod: the engine's object is made beside record, namespaces and network."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import replace

from crishim.aiokit.gather import gather_two
from crishim.aiokit.steps import step
from crishim.aiokit.undo import UndoStack
from crishim.checkpoint.record import Carrier, Phase, SandboxRecord
from crishim.engine.values import ContainerSpec
from crishim.errors import SandboxNotReady
from crishim.model import PodSandboxConfig
from crishim.network.api import Attached
from crishim.runtime.anchored.carrier import shares_processes
from crishim.runtime.anchored.pod import make_wanted, read_host_files
from crishim.runtime.anchored.process import make_object_spec
from crishim.runtime.attachment import make_attachment
from crishim.runtime.core import Runtime
from crishim.runtime.engine_create import create_with_image
from crishim.runtime.making import Making
from crishim.runtime.objects import Sandbox
from crishim.runtime.sandbox_remove import unmake


async def run_anchored(
    rt: Runtime,
    making: Making,
    name: str,
    spec: ContainerSpec,
    config: PodSandboxConfig,
    runtime_handler: str,
    resolv_conf: str,
) -> str:
    """Make an anchored pod; the caller has reserved the name and found everything valid. Returns the sandbox's id.

    The record is durable before the namespaces are made, so that these never belong to nobody. The object may be in
    the engine before: without a record it tells of a pod that nobody was told of.
    """
    sandbox_id = secrets.token_hex(32)
    object_spec = make_object_spec(config, spec, sandbox_id, rt.host(), rt.anchor.network_mode)
    async with UndoStack(f"RunPodSandbox {name}", rt.background, deadline=rt.settings.undo_deadline) as undo:
        host_network = spec.network_mode == "host"
        record = SandboxRecord(
            id=sandbox_id,
            phase=Phase.CREATING,
            config=config,
            runtime_handler=runtime_handler,
            created_at=time.time_ns(),
            netns_path="" if host_network else rt.namespaces.path(sandbox_id),
            carrier=Carrier.ANCHORED,
        )
        making.known_as(sandbox_id)
        rt.records.add(Sandbox(record=record, live=None, held=False))
        undo.push("record", lambda: unmake(rt, sandbox_id))

        async def create() -> None:
            if shares_processes(config) and not host_network:
                await rt.anchor.ensure()
            object_id, image = await create_with_image(rt, name, object_spec)
            rt.records.note(sandbox_id, lambda r: replace(r, object_id=object_id, image_ref=image))

        planned = None if host_network else rt.network.plan(make_attachment(_need(rt, sandbox_id)))

        async def furnish_and_attach() -> Attached | None:
            await _furnish(rt, sandbox_id, planned, resolv_conf)
            return await _attach(rt, sandbox_id, planned)

        created = undo.effect("create", create(), lambda _: None)
        if shares_processes(config):
            # The process enters the namespaces; whether they are attached yet is the same to it.
            await gather_two(created, _furnish(rt, sandbox_id, planned, resolv_conf))
            started = undo.effect("start", rt.processes.start(sandbox_id), lambda _: None)
            _, attached = await gather_two(started, _attach(rt, sandbox_id, planned))
        else:
            _, attached = await gather_two(created, furnish_and_attach())
        # Durable first: what anybody has seen READY is READY after a crash, too.
        now = time.time_ns()
        await rt.records.commit(sandbox_id, lambda r: replace(r, phase=Phase.READY, started_at=now, network=attached))
        _need(rt, sandbox_id)
        undo.forget()
    return sandbox_id


async def _furnish(rt: Runtime, sandbox_id: str, planned: Attached | None, resolv_conf: str) -> None:
    """Record what is about to be made; make namespaces and files."""
    await rt.records.change(sandbox_id, lambda record: replace(record, network=planned))
    config = _need(rt, sandbox_id).record.config
    host_files = {} if resolv_conf and planned is not None else await asyncio.to_thread(read_host_files)
    wanted = make_wanted(config, sandbox_id, resolv_conf, rt.settings.shm_size, host_files)
    with step("make namespaces"):
        await rt.namespaces.make(sandbox_id, wanted)
    rt.index.put_sandbox(replace(_need(rt, sandbox_id), held=True))


async def _attach(rt: Runtime, sandbox_id: str, planned: Attached | None) -> Attached | None:
    if planned is None:
        return None
    with step("network attach"):
        return await rt.network.attach(make_attachment(_need(rt, sandbox_id)), planned)


def _need(rt: Runtime, sandbox_id: str) -> Sandbox:
    sandbox = rt.index.sandbox(sandbox_id)
    if sandbox is None:
        raise SandboxNotReady(f"sandbox {sandbox_id[:13]} was removed while it was being made", sandbox=sandbox_id)
    return sandbox
