"""UpdateContainerResources: all or nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from crishim.aiokit.steps import step
from crishim.aiokit.undo import UndoStack
from crishim.engine.values import EngineResources
from crishim.errors import ContainerNotFound, EngineNotFound, UnsupportedField
from crishim.model import LinuxContainerResources
from crishim.runtime.core import Runtime
from crishim.runtime.records import with_container
from crishim.runtime.spec.resources import check_resources, make_update_resources


async def update_container_resources(rt: Runtime, container_id: str, asked: LinuxContainerResources | None) -> None:
    """Change the limits of a container (CRI UpdateContainerResources); zero or empty leaves a value as it is.

    Raises ContainerNotFound, InvalidArgument, UnsupportedField, or the engine's error after the old values were put
    back. The OOM score adjustment of a container that was not started yet is set when it is.
    """
    rt.link.need_loaded()
    container = rt.index.need_container(container_id)
    if asked is None:
        return
    check_resources(asked, "linux")
    async with (
        rt.locks.hold(container.id),
        UndoStack(f"update of {container.id[:13]}", rt.background, deadline=rt.settings.undo_deadline) as undo,
    ):
        container = rt.index.need_container(container.id)
        live = container.live
        wanted = make_update_resources(asked, live.resources)
        # Each undo is registered before its effect: one that fails or is cancelled may have taken place in part.
        if wanted != EngineResources():
            undo.push("limits", lambda: _set_limits(rt, live.id, live.resources))
            await _set_limits(rt, live.id, wanted)
        record = replace(container.record, resources=asked)
        if asked.oom_score_adj:
            score = rt.host().clamp_oom_score(asked.oom_score_adj)
            record = replace(record, oom_score_adj=score)
            if live.pid:
                undo.push("OOM score", lambda: set_oom_score(live.pid, container.oom_score_adj))
                set_oom_score(live.pid, score)
        undo.push("record", lambda: rt.records.try_change(container.sandbox_id, with_container(container.record)))
        await rt.records.commit(container.sandbox_id, with_container(record))
        if (current := rt.index.container(live.id)) is not None:
            rt.index.put_container(replace(current, record=record))
        undo.forget()


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
