"""StartContainer."""

from __future__ import annotations

import asyncio

from crishim.aiokit.steps import step
from crishim.engine.values import EngineContainer
from crishim.errors import (
    ContainerNotFound,
    ContainerNotRunning,
    ContainerStartFailed,
    CRIError,
    EngineConflict,
    EngineError,
    SandboxNotReady,
)
from crishim.model import ContainerState, NamespaceMode
from crishim.runtime.anchored.carrier import has_process
from crishim.runtime.anchored.pod import kinds_of
from crishim.runtime.anchored.upkeep import words_for
from crishim.runtime.container_stop import kill
from crishim.runtime.container_update import set_cgroup_files, set_oom_score
from crishim.runtime.core import Runtime
from crishim.runtime.objects import Container, Sandbox
from crishim.runtime.oci.asked import make_wish


async def start_container(rt: Runtime, container_id: str) -> None:
    """Start a created container (CRI StartContainer); one that runs already is success.

    Raises ContainerNotFound, SandboxNotReady, ContainerNotRunning (it has run and ended), LogFailed (its log cannot be
    written where it was asked for), FrontFailed, ImageVolumeMountFailed (a view of an image is gone and cannot be made
    again), ContainerStartFailed with the OCI runtime's words (the container is then EXITED). A call that is cancelled
    lets the start come to its end, so that what is listed is true.
    """
    rt.link.need_loaded()
    container = rt.index.need_container(container_id)
    async with rt.locks.hold(container.id):
        container = rt.index.need_container(container.id)
        if container.state is ContainerState.CONTAINER_RUNNING:
            return
        if container.state is ContainerState.CONTAINER_EXITED:
            raise ContainerNotRunning(
                f"container {container.id[:13]} has ended and cannot be started again", container=container.id
            )
        # A stop of the pod from now on waits for the container's lock, and then ends what was started.
        _need_ready(rt, container)
        wish = make_wish(container.record)
        if wish is not None and wish.for_exec:
            rt.exec_markers.put(container.id)
        await rt.logs.begin(container)
        task, cancelled = await rt.background.complete(_start(rt, container), name=f"start {container.id[:13]}")
        if cancelled:
            raise asyncio.CancelledError from task.exception()
        task.result()


async def _start(rt: Runtime, container: Container) -> None:
    await rt.volumes.restore(container)
    with rt.watch.writing(container.id):
        failure = await _ask_to_start(rt, container)
        try:
            live = await rt.watch.refresh(container.id)
        except CRIError as unseen:
            rt.watch.mark(container.id)
            raise (failure or unseen) from unseen
    if live is None:
        raise ContainerNotFound(f"container {container.id[:13]} was removed", container=container.id) from failure
    if not live.started_at:
        # Where only the answer was lost, it did start.
        assert failure is not None, "an engine that says it started a container tells since when"
        if isinstance(failure, EngineError):
            raise ContainerStartFailed(str(failure), container=container.id) from failure
        raise failure
    try:
        _check_namespaces(rt, container, live)
        if (score := container.record.oom_score_adj) is not None and live.pid:
            set_oom_score(live.pid, score)
        if container.record.resources is not None and live.pid:
            await set_cgroup_files(live, container.record, rt.link.facts.cgroup_version)
    except CRIError:
        await kill(rt, container.id)
        await rt.watch.refresh(container.id)
        raise


async def _ask_to_start(rt: Runtime, container: Container) -> CRIError | None:
    sandbox = rt.index.sandbox(container.sandbox_id)
    needs_anchor = sandbox is not None and sandbox.anchored and not sandbox.host_network
    needs_process = sandbox is not None and has_process(sandbox) and _shares_processes(container, sandbox)
    for last in (not (needs_anchor or needs_process), True):
        try:
            if needs_anchor:
                await rt.anchor.ensure()
            if needs_process:
                process = await rt.processes.ensure(container.sandbox_id)
                if container.live.pid_mode not in ("", f"container:{process}"):
                    return EngineConflict(
                        "the pod's process that it was created with was removed: a new container joins the new one"
                    )
            with step("engine start", engine=True):
                await rt.link.engine.start(container.id)
        except EngineError as error:
            if needs_anchor and not rt.anchor.is_of(container.live.network_mode):
                return EngineConflict(
                    "the anchor that it was created with was removed: a new container has the new one"
                )
            if needs_process and not last and not await rt.processes.runs(container.sandbox_id):
                continue
            if last or not isinstance(error, EngineConflict):
                return error
            # The anchor does not run, and nobody has told us so.
            rt.anchor.forget()
        except CRIError as error:
            return error
        else:
            return None
    raise AssertionError("the second round returns")


def _shares_processes(container: Container, sandbox: Sandbox) -> bool:
    """Whether it is to live in the PID namespace of its pod's process."""
    linux = container.record.config.linux
    context = linux.security_context if linux else None
    options = context.namespace_options if context else None
    return (options or sandbox.namespaces).pid is NamespaceMode.POD


def _check_namespaces(rt: Runtime, container: Container, live: EngineContainer) -> None:
    """Raise ContainerStartFailed for a container of an anchored pod that lives elsewhere.

    One that has ended already was started by the front or, without it, in the anchor's empty namespaces.
    """
    sandbox = rt.index.sandbox(container.sandbox_id)
    if sandbox is None or not sandbox.anchored or not live.pid:
        return
    kinds = kinds_of(sandbox.record.config)
    if astray := rt.namespaces.strangers(sandbox.id, kinds, live.pid, rt.host().process):
        raise ContainerStartFailed(f"it was killed: {words_for(astray)}", container=container.id)


def _need_ready(rt: Runtime, container: Container) -> None:
    sandbox = rt.index.sandbox(container.sandbox_id)
    if sandbox is None or not sandbox.ready:
        raise SandboxNotReady(
            f"sandbox {container.sandbox_id[:13]} is not ready", sandbox=container.sandbox_id, container=container.id
        )
