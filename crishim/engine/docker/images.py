"""Listing and removing images: what takes the engine more than one call."""

from __future__ import annotations

import asyncio
import logging

from aiodocker import Docker

from crishim.engine.docker.errors import guard
from crishim.engine.docker.parse import image_from
from crishim.engine.docker.references import is_image_id
from crishim.engine.values import EngineImage
from crishim.errors import (
    CRIError,
    EngineConflict,
    EngineError,
    EngineNotFound,
    EngineTimeout,
    EngineUnavailable,
    Kind,
)

log = logging.getLogger(__name__)

_AT_ONCE = 8
"""Inspects under way together while images are listed."""


async def list_images(docker: Docker, limit: float) -> list[EngineImage]:
    """All images. The engine's list lacks user, command and the like, so each one is inspected, too.

    One that the engine cannot tell of (a layer of it is damaged) is left out and told in the log. Raises EngineTimeout
    when that is so of many in a row, and EngineUnavailable.
    """
    async with guard("list of images", limit):
        ids = sorted({row["Id"] for row in await docker.images.list()})
    turn = asyncio.Semaphore(_AT_ONCE)

    silent = 0

    async def inspect(image_id: str) -> EngineImage | None:
        nonlocal silent
        async with turn:
            try:
                image = await inspect_image(docker, image_id, limit)
            except EngineNotFound:
                return None  # removed since the list was made
            except EngineUnavailable:
                raise
            except CRIError as error:
                silent += isinstance(error, EngineTimeout)
                if silent > _AT_ONCE:
                    raise
                log.warning("image %s cannot be inspected and is not listed: %s", image_id, error)
                return None
            silent = 0
            return image

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(inspect(image_id)) for image_id in ids]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None  # one of them is enough; callers know errors, not groups
    return [image for task in tasks if (image := task.result()) is not None]


async def inspect_image(docker: Docker, reference: str, limit: float) -> EngineImage:
    """One image by anything that names it."""
    async with guard("inspect of an image", limit, image=reference):
        return image_from(await docker.images.inspect(reference))


async def remove_image(docker: Docker, reference: str, limit: float) -> None:
    """Remove a name, or by id the image with all its names.

    The engine takes an id of an image with several names only with `force`, and `force` takes the image away from
    stopped containers. So the names go one by one, after a look for users; if one turns up meanwhile, the names that
    are gone already are given back.
    """
    if not is_image_id(reference):
        await _delete(docker, reference, limit)
        return
    image = await inspect_image(docker, reference, limit)
    await _refuse_in_use(docker, image.id, limit)
    removed: list[str] = []
    try:
        for name in (*image.tags, *image.digests, image.id):
            try:
                await _delete(docker, name, limit)
            except EngineNotFound:
                continue  # gone with the name before, or by another caller
            removed.append(name)
    except EngineConflict:
        await asyncio.shield(_give_back(docker, image, removed, limit))
        raise


async def _delete(docker: Docker, name: str, limit: float) -> None:
    try:
        async with guard("removal of an image", limit, image=name):
            await docker.images.delete(name)
    except EngineError as error:
        if error.kind is Kind.INTERNAL:  # the engine's answer, too, when another removal was faster
            await inspect_image(docker, name, limit)
        raise


async def _refuse_in_use(docker: Docker, image_id: str, limit: float) -> None:
    async with guard("list of containers", limit, image=image_id):
        rows = await docker.containers.list(all=True)
    users = [container.id for container in rows if container["ImageID"] == image_id]
    if users:
        shown = ", ".join(user[:12] for user in users[:3]) + (", …" if len(users) > 3 else "")
        raise EngineConflict(f"image {image_id} is used by {len(users)} container(s): {shown}", image=image_id)
    # An image built here on this one: the engine would refuse only when the names are gone, digests for good.
    async with guard("list of images", limit, image=image_id):
        built = [row["Id"] for row in await docker.images.list(all=1) if row.get("ParentId") == image_id]
    if built:
        raise EngineConflict(f"image {image_id} has dependent images: {built[0]}", image=image_id)


async def _give_back(docker: Docker, image: EngineImage, removed: list[str], limit: float) -> None:
    for name in removed:
        repository, colon, tag = name.rpartition(":")
        if name not in image.tags or not colon:
            continue  # a digest cannot be given; the engine keeps it with the tag of its repository
        try:
            async with guard("tagging of an image", limit, image=image.id):
                await docker.images.tag(image.id, repository, tag=tag)
        except CRIError as error:
            log.warning("name %s of image %s is lost: %s", name, image.id, error)
