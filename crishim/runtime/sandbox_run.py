"""RunPodSandbox: image, create, checkpoint, start, namespaces, network; READY only when all of it is true."""

from __future__ import annotations

import time
from dataclasses import replace

from crishim.aiokit.steps import step
from crishim.aiokit.undo import UndoStack
from crishim.checkpoint.record import Carrier, Phase, SandboxRecord
from crishim.engine.values import ContainerPhase, EngineContainer
from crishim.errors import EngineError, NameReserved, NetworkNotReady, SandboxNotReady
from crishim.model import PodSandboxConfig, PodSandboxMetadata
from crishim.network.api import Attached
from crishim.runtime.anchored.carrier import choose_carrier
from crishim.runtime.anchored.run import run_anchored
from crishim.runtime.attachment import make_attachment
from crishim.runtime.core import Runtime
from crishim.runtime.engine_create import create_with_image
from crishim.runtime.making import Making
from crishim.runtime.names import make_sandbox_name
from crishim.runtime.objects import Sandbox
from crishim.runtime.resolv_conf import make_resolv_conf
from crishim.runtime.sandbox_remove import take_away, unmake
from crishim.runtime.spec.sandbox import check_metadata, make_sandbox_spec, net_sysctls


async def run_pod_sandbox(rt: Runtime, config: PodSandboxConfig, runtime_handler: str) -> str:
    """Make a pod's sandbox with its network and return its id (CRI RunPodSandbox).

    Cancelled or failed anywhere, everything is undone; what cannot be undone stays listed NOTREADY for Stop and
    Remove. Raises InvalidArgument, UnsupportedField, UnknownRuntimeHandler, NameReserved, NetworkNotReady, the
    network's, the namespaces' and the engine's errors.
    """
    check_metadata(config)
    assert config.metadata is not None
    name = make_sandbox_name(config.metadata)
    making = Making(rt.running)
    with making.under_way():
        async with rt.names.reserve(name):
            # Everything that can be refused is refused before anything is made.
            spec = make_sandbox_spec(
                config, runtime_handler, image="", facts=rt.link.facts, host=rt.host(), settings=rt.settings
            )
            carrier = choose_carrier(config, spec.runtime, rt.host(), rt.settings)
            host_network = spec.network_mode == "host"
            resolv_conf = make_resolv_conf(config.dns_config)
            if not host_network and not (status := rt.network.status()).ready:
                raise NetworkNotReady(f"{status.reason}: {status.message}")
            with step("free name"):
                await _free_name(rt, config.metadata)
            with step("sandbox image"):
                # May be a long pull, so it is done where a cancellation takes effect at once.
                await rt.images.ensure_sandbox_image()
            if carrier is Carrier.ANCHORED:
                return await run_anchored(rt, making, name, spec, config, runtime_handler, resolv_conf)
            async with UndoStack(f"RunPodSandbox {name}", rt.background, deadline=rt.settings.undo_deadline) as undo:

                async def create() -> str:
                    sandbox_id, image = await create_with_image(rt, name, spec)
                    record = SandboxRecord(
                        id=sandbox_id,
                        phase=Phase.CREATING,
                        config=config,
                        runtime_handler=runtime_handler,
                        created_at=time.time_ns(),
                        netns_path="" if host_network else rt.namespaces.path(sandbox_id),
                        image_ref=image,
                    )
                    making.known_as(sandbox_id)
                    rt.records.add(Sandbox(record=record, live=None))
                    return sandbox_id

                sandbox_id = await undo.effect("create", create(), lambda made: unmake(rt, made))
                with rt.watch.writing(sandbox_id):
                    await _bring_up(rt, undo, sandbox_id, host_network=host_network, resolv_conf=resolv_conf)
                undo.forget()
            return sandbox_id


async def _free_name(rt: Runtime, pod: PodSandboxMetadata) -> None:
    """A sandbox of this very pod and attempt: somebody's, or a leftover that nobody was told of and that goes."""
    for sandbox in [s for s in rt.index.sandboxes() if s.metadata == pod]:
        if sandbox.record.phase is not Phase.CREATING:
            raise NameReserved(
                f"sandbox {sandbox.id[:13]} ({sandbox.state.name}) is attempt {pod.attempt} of pod "
                f"{pod.namespace}/{pod.name} already",
                sandbox=sandbox.id,
            )
        await take_away(rt, sandbox.id)


async def _bring_up(rt: Runtime, undo: UndoStack, sandbox_id: str, *, host_network: bool, resolv_conf: str) -> None:
    planned = await _plan(rt, sandbox_id, host_network=host_network)
    engine = rt.link.engine

    async def start() -> None:
        with step("engine start", engine=True):
            await engine.start(sandbox_id)

    await undo.effect("start", start(), lambda _: None)
    live = await _inspect_running(rt, sandbox_id)
    attached = await _furnish(rt, sandbox_id, planned, live, resolv_conf)
    await rt.watch.apply(live)
    # Durable first: what anybody has seen READY is READY after a crash, too.
    await rt.records.commit(
        sandbox_id, lambda r: replace(r, phase=Phase.READY, started_at=live.started_at, network=attached)
    )
    _need(rt, sandbox_id)


async def _plan(rt: Runtime, sandbox_id: str, *, host_network: bool) -> Attached | None:
    """Checkpoint what is about to be attached, so that it can be detached whatever happens."""
    planned = None if host_network else rt.network.plan(make_attachment(_need(rt, sandbox_id)))
    await rt.records.change(sandbox_id, lambda record: replace(record, network=planned))
    return planned


async def _furnish(
    rt: Runtime, sandbox_id: str, planned: Attached | None, live: EngineContainer, resolv_conf: str
) -> Attached | None:
    """Give the pod its resolv.conf, its namespace's settings and its network."""
    resolver = (live.resolv_conf_path, resolv_conf) if resolv_conf else None
    if planned is None:
        await _write(rt, resolver)
        return None
    sysctls = net_sysctls(_need(rt, sandbox_id).record.config)
    with step("furnish namespace"):
        done = await rt.namespaces.furnish(sandbox_id, live.pid, sysctls, resolver)
    if not done:
        # The pid may be a stranger's by now: the pin counts if the same process still runs after it.
        await _inspect_running(rt, sandbox_id, was=live)
        await _write(rt, resolver)
        with step("prepare namespace"):
            await rt.namespaces.prepare(sandbox_id, sysctls)
    with step("network attach"):
        return await rt.network.attach(make_attachment(_need(rt, sandbox_id)), planned)


async def _write(rt: Runtime, resolver: tuple[str, str] | None) -> None:
    if resolver is not None:
        with step("resolv.conf"):
            await rt.namespaces.write_resolv_conf(*resolver)


async def _inspect_running(rt: Runtime, sandbox_id: str, was: EngineContainer | None = None) -> EngineContainer:
    with step("engine inspect", engine=True):
        live = await rt.link.engine.inspect(sandbox_id)
    if live.phase is not ContainerPhase.RUNNING or (was is not None and live.started_at != was.started_at):
        raise EngineError(
            f"the process of sandbox {sandbox_id[:13]} ended right after its start "
            f"(exit code {live.exit_code}) {live.error}".rstrip(),
            sandbox=sandbox_id,
        )
    return live


def _need(rt: Runtime, sandbox_id: str) -> Sandbox:
    sandbox = rt.index.sandbox(sandbox_id)
    if sandbox is None:
        raise SandboxNotReady(f"sandbox {sandbox_id[:13]} was removed while it was being made", sandbox=sandbox_id)
    return sandbox
