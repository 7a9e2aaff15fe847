"""Making a named object in the engine, whatever a crash or an earlier call left under that name.

Never decides by a message's text: who holds a name is found by looking at the holder.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from crishim.aiokit.steps import step
from crishim.engine.values import ContainerPhase, ContainerSpec
from crishim.errors import CRIError, EngineConflict, EngineNotFound, EngineTimeout, EngineUnavailable, NameReserved
from crishim.runtime import labels
from crishim.runtime.core import Runtime

log = logging.getLogger(__name__)


async def create_named(rt: Runtime, name: str, spec: ContainerSpec) -> str:
    """Create the engine's container `name` and return its id; the caller has reserved the name.

    A leftover of that name which nobody was told of is removed first. Raises NameReserved when somebody else's, or a
    running one, has the name. When the engine breaks off, what it may have made is removed if it can be reached.
    """
    for last in (False, True):
        engine = rt.link.engine
        try:
            with step("engine create", engine=True):
                return await engine.create(name, spec)
        except EngineConflict as conflict:
            if last:
                raise NameReserved(f"the engine's name {name} is taken again and again: {conflict}") from conflict
            await remove_leftover(rt, name, conflict)
        except (EngineTimeout, EngineUnavailable):
            await _remove_unanswered(rt, name, spec)
            raise
    raise AssertionError("the second round returns or raises")


async def create_with_image(rt: Runtime, name: str, spec: ContainerSpec) -> tuple[str, str]:
    """`create_named` from the sandbox image; should that be gone from the engine without our knowing, get it again.

    Returns the ids of container and image.
    """
    for last in (False, True):
        image = await rt.images.ensure_sandbox_image()
        try:
            with rt.images.hold(image):
                return await create_named(rt, name, replace(spec, image=image)), image
        except EngineNotFound:
            if last or await rt.images.recheck(image) is not None:
                raise
    raise AssertionError("the second round returns or raises")


async def remove_leftover(rt: Runtime, name: str, conflict: CRIError) -> None:
    """Remove what holds `name` in the engine if it is a leftover of ours. Raises NameReserved if it is not."""
    engine = rt.link.engine
    try:
        with step("engine inspect", engine=True):
            holder = await engine.inspect(name)
    except EngineNotFound:
        return
    known = rt.index.container(holder.id) or rt.index.sandbox(labels.anchored_id(holder.labels) or holder.id)
    ours = labels.TYPE in holder.labels
    if known or not ours or holder.phase is ContainerPhase.RUNNING:
        raise NameReserved(f"the engine's name {name} is held by container {holder.id[:13]}") from conflict
    log.info("removing %s (%s), left by a call that nobody got an answer to", name, holder.id[:13])
    try:
        with step("engine remove", engine=True):
            await engine.remove(holder.id)
    except EngineNotFound:
        return


async def _remove_unanswered(rt: Runtime, name: str, spec: ContainerSpec) -> None:
    """The engine gave no answer to a create: look whether it took place, and undo it."""
    try:
        engine = rt.link.engine
        made = await engine.inspect(name)
        # The engine adds the image's labels to those that it was told.
        ours = spec.labels.items() <= made.labels.items()
        if ours and made.phase is ContainerPhase.CREATED:
            await engine.remove(made.id)
    except EngineNotFound:
        return
    except CRIError as error:
        # Not lost: the next comparison with the engine's list finds it by its labels.
        log.warning("whether %s was created is not known (%s)", name, error)
