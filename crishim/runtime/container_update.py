"""UpdateContainerResources: all or nothing."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from crishim.aiokit.steps import step
from crishim.engine.values import EngineResources
from crishim.errors import ContainerNotFound, CRIError, EngineError, EngineNotFound
from crishim.model import LinuxContainerResources
from crishim.runtime.core import Runtime
from crishim.runtime.objects import Container
from crishim.runtime.records import put_container_record
from crishim.runtime.spec.resources import check_resources, make_update_resources

log = logging.getLogger(__name__)


async def update_container_resources(rt: Runtime, container_id: str, asked: LinuxContainerResources | None) -> None:
    """Change the limits of a container (CRI UpdateContainerResources); zero or empty leaves a value as it is.

    Raises ContainerNotFound, InvalidArgument, UnsupportedField, or the engine's error after the old values were put
    back.
    """
    container = rt.index.need_container(container_id)
    if asked is None:
        return
    check_resources(asked, "linux")
    async with rt.locks.hold(container.id):
        container = rt.index.need_container(container.id)
        before = container.live.resources
        wanted = make_update_resources(asked, before)
        with rt.watch.writing(container.id):
            if wanted != EngineResources():
                await _update(rt, container, wanted, before)
            if asked.oom_score_adj and container.live.pid:
                set_oom_score(container.live.pid, rt.host().clamp_oom_score(asked.oom_score_adj))
            await rt.watch.refresh(container.id)
        await put_container_record(rt, container.sandbox_id, replace(container.record, resources=asked))
        current = rt.index.container(container.id)
        if current is not None:
            rt.index.put_container(replace(current, record=replace(container.record, resources=asked)))


async def _update(rt: Runtime, container: Container, wanted: EngineResources, before: EngineResources) -> None:
    engine = rt.link.engine
    try:
        with step("engine update", engine=True):
            await engine.update(container.id, wanted)
    except EngineNotFound as error:
        raise ContainerNotFound(f"container {container.id[:13]} was removed", container=container.id) from error
    except EngineError:
        try:
            with step("engine update back", engine=True):
                await engine.update(container.id, before)
        except CRIError as error:
            log.warning("container %s: the old limits cannot be put back: %s", container.id[:13], error)
        raise


def set_oom_score(pid: int, score: int, proc: Path = Path("/proc")) -> None:
    """Set the OOM score adjustment of a process and of all that descend from it; those that ended meanwhile are left.

    The engine's API sets it at creation only.
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
