"""CreateContainer: decide everything, make it, record it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial

from crishim.aiokit.steps import step
from crishim.aiokit.undo import UndoStack
from crishim.checkpoint.record import ContainerRecord
from crishim.engine.values import ContainerSpec
from crishim.errors import (
    ContainerNotFound,
    CRIError,
    EngineError,
    EngineNotFound,
    ImageNotFound,
    ImageVolumeMountFailed,
    InvalidArgument,
    Kind,
    NameReserved,
    SandboxNotReady,
)
from crishim.model import (
    ContainerConfig,
    LinuxContainerSecurityContext,
    Mount,
    NamespaceMode,
    PodSandboxConfig,
    ProfileType,
)
from crishim.runtime.anchored.carrier import has_process, need_twin
from crishim.runtime.anchored.pod import with_hostname
from crishim.runtime.container_identity import settle_identity
from crishim.runtime.container_remove import remove_known
from crishim.runtime.core import Runtime
from crishim.runtime.engine_create import create_named
from crishim.runtime.names import make_container_name
from crishim.runtime.objects import Container, Sandbox
from crishim.runtime.spec.container import make_container_spec, make_log_path
from crishim.runtime.spec.sandbox import make_runtime


async def create_container(
    rt: Runtime, sandbox_id: str, config: ContainerConfig, sandbox_config: PodSandboxConfig | None
) -> str:
    """Create a container in a READY sandbox and return its id (CRI CreateContainer).

    Of `sandbox_config` only log_directory counts; the sandbox's own configuration is the stored one. Raises
    SandboxNotFound, SandboxNotReady, ImageNotFound, NameReserved, InvalidArgument, UnsupportedField, the named errors
    of mounts, and the engine's. After an error nothing is left.
    """
    rt.link.need_loaded()
    sandbox = rt.index.need_sandbox(sandbox_id)
    if config.metadata is None or not config.metadata.name:
        raise InvalidArgument("is missing", field="config.metadata.name")
    if config.image is None or not config.image.image:
        raise InvalidArgument("is missing", field="config.image.image")
    name, wanted_image = make_container_name(config.metadata, sandbox.metadata), config.image.image
    log_directory = (sandbox_config.log_directory if sandbox_config else "") or sandbox.record.config.log_directory
    log_path = make_log_path(log_directory, config.log_path)
    _need_ready(rt, sandbox.id)
    _check_handlers(rt, config)
    with step("image"):
        image = await rt.images.resolve_for_container(wanted_image)
        config = replace(config, mounts=await _resolve_volumes(rt, config.mounts))
    target = _resolve_target(rt, sandbox.id, config)
    make_spec = partial(
        make_container_spec,
        config,
        sandbox,
        image=image.id,
        log_path=log_path,
        target_in_pod=lambda _: target,
        facts=rt.link.facts,
        host=rt.host(),
        settings=rt.settings,
        anchor=rt.anchor.network_mode if sandbox.anchored else "",
        process=await rt.processes.ensure(sandbox.id) if has_process(sandbox) else "",
    )
    # In a thread where it looks at files: one on a file server that is away may hold it for ever.
    spec = await asyncio.to_thread(make_spec) if _names_files(config) else make_spec()
    if sandbox.anchored:
        plain = make_runtime(sandbox.record.runtime_handler, rt.link.facts)
        env = with_hostname(spec.env, image.env, sandbox.record)
        spec = replace(spec, runtime=need_twin(plain, rt.host()), env=env)
        if not sandbox.host_network:
            await rt.anchor.ensure()
    if not (spec.entrypoint or spec.command or image.entrypoint or image.command):
        raise InvalidArgument("neither the request nor the image says what to run", field="config.command")
    second_name = f"{name}_{sandbox.id[:12]}"
    async with (
        rt.names.reserve(name, second_name),
        rt.volumes.claiming() as claim,
        UndoStack(f"CreateContainer {name}", rt.background, deadline=rt.settings.undo_deadline) as undo,
    ):
        with step("free name"):
            await _free_name(rt, sandbox, config)
        if any(c.live.name.lstrip("/") == name for c in rt.index.containers()):
            name = second_name  # a sandbox of the same pod, of another attempt, has its like

        async def remove(container_id: str) -> None:
            await rt.records.drop_container(sandbox.id, container_id)
            with suppress(EngineNotFound):
                await rt.link.engine.remove(container_id)

        try:
            with ExitStack() as holds:
                for held in (image.id, *(mount.source for mount in spec.mounts if mount.image)):
                    holds.enter_context(rt.images.hold(held))
                context = (config.linux.security_context if config.linux else None) or LinuxContainerSecurityContext()
                spec = await settle_identity(rt, undo, name, spec, context, image)
                spec = await rt.volumes.show(undo, claim, spec)
                container_id = await undo.effect("create", _create(rt, name, spec), remove)
        except EngineNotFound as error:
            _need_ready(rt, sandbox.id, error)
            if await rt.images.recheck(image.id) is None:
                raise ImageNotFound(f"image {wanted_image} was removed", image=image.id) from error
            raise
        except CRIError as error:
            # The engine may refuse because the sandbox was stopped meanwhile; then that is the reason to tell.
            _need_ready(rt, sandbox.id, error)
            raise
        await _check_sub_paths(rt, container_id, spec)
        record = ContainerRecord(id=container_id, config=config, image_ref=image.id, created_at=time.time_ns())
        await rt.records.put_container(sandbox.id, record)
        _need_ready(rt, sandbox.id)
        live = rt.link.engine.foresee(container_id, name, spec, image)
        rt.index.put_container(Container(record=record, sandbox_id=sandbox.id, live=live, log_path=log_path))
        rt.watch.mark(container_id)  # what the engine alone knows follows
        undo.forget()
        return container_id


async def _create(rt: Runtime, name: str, spec: ContainerSpec) -> str:
    """`create_named`, once more where the anchor that the container names has gone since somebody looked."""
    if not rt.anchor.is_of(spec.network_mode):
        return await create_named(rt, name, spec)
    for last in (False, True):
        try:
            return await create_named(rt, name, spec)
        except EngineNotFound as error:
            before = rt.anchor.id
            await rt.anchor.ensure(look=True)
            if rt.anchor.id == before:
                raise
            if last:
                words = f"the anchor {rt.anchor.name} is taken away again and again"
                raise EngineError(words, kind=Kind.UNAVAILABLE) from error
    raise AssertionError("the second round returns or raises")


def _names_files(config: ContainerConfig) -> bool:
    """Whether files of the node are looked at: sources of mounts, devices, profiles."""
    context = config.linux.security_context if config.linux else None
    profiles = (context.seccomp, context.apparmor) if context else ()
    deprecated = (context.seccomp_profile_path, context.apparmor_profile) if context else ()
    return bool(
        config.mounts
        or config.devices
        or any(profile is not None and profile.profile_type is ProfileType.Localhost for profile in profiles)
        or any(deprecated)
    )


def _check_handlers(rt: Runtime, config: ContainerConfig) -> None:
    """Raise UnknownRuntimeHandler for an image that is meant for a handler which is not known: images are the same for
    all handlers here (CRI `ImageSpec.runtime_handler`)."""
    for image in (config.image, *(mount.image for mount in config.mounts)):
        if image is not None:
            make_runtime(image.runtime_handler, rt.link.facts)


async def _resolve_volumes(rt: Runtime, mounts: Sequence[Mount]) -> tuple[Mount, ...]:
    """The mounts with the ids of the images that they name (CRI `ImageSpec.image_ref`). Raises ImageNotFound."""
    resolved = []
    for i, mount in enumerate(mounts):
        if mount.image is not None and mount.image.image:
            field = f"config.mounts[{i}].image.image"
            found = await rt.images.resolve_for_container(mount.image.image, field=field)
            resolved.append(replace(mount, image=replace(mount.image, image_ref=found.id)))
        else:
            resolved.append(mount)
    return tuple(resolved)


async def _check_sub_paths(rt: Runtime, container_id: str, spec: ContainerSpec) -> None:
    """Raise ImageVolumeMountFailed for a folder that an image does not have: the engine misses it at the start only."""
    for mount in spec.mounts:
        if mount.image_subpath:
            reason = f"the image has no {mount.image_subpath!r}"
            try:
                with step("engine look for sub path", engine=True):
                    found = await rt.link.engine.has_path(container_id, mount.target)
            except EngineNotFound:
                raise
            except EngineError as error:
                raise ImageVolumeMountFailed(f"{mount.target}: {reason}: {error}") from error
            if not found:
                raise ImageVolumeMountFailed(f"{mount.target}: {reason}")


def _need_ready(rt: Runtime, sandbox_id: str, cause: CRIError | None = None) -> None:
    sandbox = rt.index.sandbox(sandbox_id)
    if sandbox is None or not sandbox.ready:
        raise SandboxNotReady(f"sandbox {sandbox_id[:13]} is not ready", sandbox=sandbox_id) from cause


async def _free_name(rt: Runtime, sandbox: Sandbox, config: ContainerConfig) -> None:
    """Name and attempt are unique in a sandbox; a leftover that nobody was told of goes."""
    for container in rt.index.containers_of(sandbox.id):
        if container.record.config.metadata == config.metadata:
            if not container.unclaimed:
                raise NameReserved(
                    f"container {container.id[:13]} ({container.state.name}) has this name and attempt already",
                    container=container.id,
                )
            await remove_known(rt, container.id)


def _resolve_target(rt: Runtime, sandbox_id: str, config: ContainerConfig) -> str:
    """Id of the container whose processes the new one is to see (PID mode TARGET), empty without one."""
    context = config.linux.security_context if config.linux else None
    options = context.namespace_options if context else None
    if options is None or options.pid is not NamespaceMode.TARGET:
        return ""
    field = "config.linux.security_context.namespace_options.target_id"
    try:
        container = rt.index.need_container(options.target_id)
    except ContainerNotFound as error:
        raise InvalidArgument(str(error), field=field) from error
    if container.sandbox_id != sandbox_id or not container.running:
        raise InvalidArgument(f"{options.target_id[:13]} is not a running container of the same pod", field=field)
    return container.id
