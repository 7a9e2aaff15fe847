"""UpdateContainerResources: all or nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from crishim.aiokit.steps import step
from crishim.aiokit.undo import UndoStack
from crishim.checkpoint.record import ContainerRecord
from crishim.engine.values import EngineContainer, EngineResources
from crishim.errors import ContainerNotFound, EngineNotFound, UnsupportedField
from crishim.model import LinuxContainerResources
from crishim.runtime import cgroup_files
from crishim.runtime.core import Runtime
from crishim.runtime.objects import Container
from crishim.runtime.oci.asked import asked_hugepages, asked_unified
from crishim.runtime.records import with_container
from crishim.runtime.spec.resources import check_resources, make_update_resources
from crishim.runtime.spec.ways import Ways, make_ways


async def update_container_resources(rt: Runtime, container_id: str, asked: LinuxContainerResources | None) -> None:
    """Change the limits of a container (CRI UpdateContainerResources); zero or empty leaves a value as it is.

    Raises ContainerNotFound, InvalidArgument, UnsupportedField, or the engine's error after the old values were put
    back. What the engine does not know (OOM score adjustment, files of the cgroup) is set by ourselves; in a container
    that was not started yet, when it is.
    """
    rt.link.need_loaded()
    container = rt.index.need_container(container_id)
    if asked is None:
        return
    check_resources(asked, "linux", _ways(rt, container), memory_in_force=container.live.resources.memory or 0)
    async with (
        rt.locks.hold(container.id),
        UndoStack(f"update of {container.id[:13]}", rt.background, deadline=rt.settings.undo_deadline) as undo,
    ):
        container = rt.index.need_container(container.id)
        live = container.live
        wanted = make_update_resources(asked, live.resources)
        record = replace(container.record, resources=_with_files_so_far(container.record, asked))
        version = rt.link.facts.cgroup_version
        # Each undo is registered before its effect: one that fails or is cancelled may have taken place in part.
        if live.pid and (before := await _read_cgroup_files(live, record, version)):
            # First, so that it is undone last: with any update the OCI runtime writes anew what it was created with.
            undo.push("cgroup", lambda: asyncio.to_thread(cgroup_files.write, before))
        if wanted != EngineResources():
            undo.push("limits", lambda: _set_limits(rt, live.id, live.resources))
            await _set_limits(rt, live.id, wanted)
        if asked.oom_score_adj:
            score = rt.host().clamp_oom_score(asked.oom_score_adj)
            record = replace(record, oom_score_adj=score)
            if live.pid:
                undo.push("OOM score", lambda: set_oom_score(live.pid, container.oom_score_adj))
                set_oom_score(live.pid, score)
        if live.pid:
            await set_cgroup_files(live, record, version)
        undo.push("record", lambda: rt.records.try_change(container.sandbox_id, with_container(container.record)))
        await rt.records.commit(container.sandbox_id, with_container(record))
        if (current := rt.index.container(live.id)) is not None:
            rt.index.put_container(replace(current, record=record))
        undo.forget()


def _ways(rt: Runtime, container: Container) -> Ways:
    """What the front makes possible for this container's handler."""
    facts, sandbox = rt.link.last_facts, rt.index.sandbox(container.sandbox_id)
    if facts is None:
        return Ways()
    return make_ways(facts, rt.host(), (sandbox.record.runtime_handler if sandbox else "") or facts.default_runtime)


def _with_files_so_far(record: ContainerRecord, asked: LinuxContainerResources) -> LinuxContainerResources:
    """What is asked, with the files of the cgroup that were asked for before and are not now: they stay."""
    earlier = record.resources or LinuxContainerResources()
    sizes = {limit.page_size for limit in asked.hugepage_limits if limit.limit}
    limits = (*(old for old in earlier.hugepage_limits if old.page_size not in sizes), *asked.hugepage_limits)
    return replace(asked, unified={**earlier.unified, **asked.unified}, hugepage_limits=limits)


async def _read_cgroup_files(live: EngineContainer, record: ContainerRecord, version: int) -> cgroup_files.Files:
    if not (asked := _files(record)):
        return {}
    return await asyncio.to_thread(lambda: cgroup_files.read(cgroup_files.wanted(live, asked, version)))


async def set_cgroup_files(live: EngineContainer, record: ContainerRecord, version: int) -> None:
    """Write the limits that are files of a running container's cgroup and no more, all that were ever asked. Raises
    InvalidArgument for a value that the kernel does not take, UnsupportedField where there is no such file."""
    if asked := _files(record):
        # In a thread: to lower a limit of memory may take as long as the kernel needs to make room.
        await asyncio.to_thread(lambda: cgroup_files.write(cgroup_files.wanted(live, asked, version)))


def _files(record: ContainerRecord) -> LinuxContainerResources | None:
    """What is asked of the container's cgroup beyond the engine's words; None for nothing, as with nearly all."""
    unified, hugepages = asked_unified(record), asked_hugepages(record)
    return LinuxContainerResources(unified=unified, hugepage_limits=hugepages) if unified or hugepages else None


async def _set_limits(rt: Runtime, container_id: str, limits: EngineResources) -> None:
    with rt.watch.writing(container_id):
        try:
            with step("engine update", engine=True):
                await rt.link.engine.update(container_id, limits)
        except EngineNotFound as error:
            await rt.watch.vanished(container_id)
            raise ContainerNotFound(f"container {container_id[:13]} was removed", container=container_id) from error
        await rt.watch.refresh(container_id)


def set_oom_score(pid: int, score: int, proc: Path = Path("/proc")) -> None:
    """Set the OOM score adjustment of a process and of all that descend from it; those that ended meanwhile are left.

    The engine's API sets it at creation only. Raises UnsupportedField where the kernel does not let us.
    """
    pids = [pid]
    while pids:
        process = proc / str(pids.pop())
        try:
            (process / "oom_score_adj").write_text(str(score))
            for task in (process / "task").iterdir():
                pids += [int(child) for child in (task / "children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError as error:
            raise UnsupportedField(f"{score}: {error.strerror}", field="linux.oom_score_adj") from error
