"""RemoveImage: by any reference the whole image with all its names, or nothing of it while a container uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from crishim.aiokit.steps import step
from crishim.errors import CRIError, EngineConflict, EngineNotFound, ImageInUse
from crishim.images import image_lookup
from crishim.images.core import ImageRoom
from crishim.model import ImageSpec


async def remove(room: ImageRoom, spec: ImageSpec, suspect: Callable[[str], None]) -> None:
    """Remove the image; a missing one is success (CRI `RemoveImage`), also for all but one of many callers at once.

    `suspect` is told the id where the outcome is not known. A cancelled call lets the engine finish: names go one by
    one there, and stopping half way would lose some. Raises ImageInUse, with all names still there.
    """
    if (image := await image_lookup.find(room, spec.image)) is None:
        return
    async with room.removals.hold(image.id):
        if room.index.get(image.id) is None:
            return  # the caller before us did it
        await _refuse_in_use(room, image.id)
        task, cancelled = await room.background.complete(
            _remove(room, image.id, suspect), name=f"remove image {image.id[:19]}"
        )
        if cancelled:
            raise asyncio.CancelledError
        task.result()


async def _refuse_in_use(room: ImageRoom, image_id: str) -> None:
    """Ours in memory first, which costs nothing and knows what the engine may not tell; then all the engine has."""
    users = list(room.used_by(image_id))
    if not users and image_id in room.holds:
        raise ImageInUse(f"image {image_id}: a container is being made from it at this moment", image=image_id)
    if not users:
        engine = room.get_engine()
        with step("engine list containers", engine=True):
            users = list(await engine.list_containers(image=image_id))
    if users:
        shown = ", ".join(user[:13] for user in users[:3]) + (", …" if len(users) > 3 else "")
        raise ImageInUse(f"image {image_id} is used by {len(users)} container(s): {shown}", image=image_id)


async def _remove(room: ImageRoom, image_id: str, suspect: Callable[[str], None]) -> None:
    engine = room.get_engine()
    try:
        with step("engine remove image", engine=True):
            await engine.remove_image(image_id)
    except EngineNotFound:
        pass  # somebody else was faster
    except EngineConflict as error:
        suspect(image_id)
        raise ImageInUse(f"image {image_id} was not removed: {error}", image=image_id) from error
    except CRIError:
        suspect(image_id)
        raise
    room.index.drop(image_id)
