"""ImageStatus, and how a container finds its image: from memory, and the engine is asked once before 'missing'."""

from __future__ import annotations

from crishim.engine.values import EngineImage
from crishim.errors import ImageNotFound
from crishim.images.core import ImageRoom
from crishim.images.reference import ImageQuery, parse_query, shorten
from crishim.model import ImageFilter


def list_images(room: ImageRoom, image_filter: ImageFilter | None) -> tuple[EngineImage, ...]:
    """ListImages: from memory alone. A filter names one image (CRI `ImageFilter`); an empty one means all."""
    wanted = image_filter.image.image if image_filter is not None and image_filter.image is not None else ""
    if not wanted:
        return room.index.images()
    found = room.index.resolve(parse_query(wanted, field="filter.image.image"))
    return (found,) if found is not None else ()


async def find(room: ImageRoom, text: str, *, field: str = "image.image") -> EngineImage | None:
    """The image that a text means, None if the engine has none. No engine call if the index knows it.

    Raises InvalidArgument, AmbiguousId; what the index lacks while the engine is away is not 'missing' but
    EngineUnavailable.
    """
    query = parse_query(text, field=field)
    if (known := room.index.resolve(query)) is not None:
        return known
    return await _ask(room, query)


async def resolve_for_container(room: ImageRoom, text: str, *, field: str) -> EngineImage:
    """The image for a new container (CRI `ContainerConfig.image`: an id or a name). Raises ImageNotFound."""
    if (found := await find(room, text, field=field)) is None:
        raise ImageNotFound(f"image {shorten(text)} is not on this node", image=text[:200])
    return found


async def _ask(room: ImageRoom, query: ImageQuery) -> EngineImage | None:
    if query.name is not None and (image := await room.look(str(query.name))) is not None:
        # The engine knows by this name what it may show under others (a digest of a multi-platform list).
        return room.index.resolve(query) or image
    if query.id_prefix and await room.look(query.id_prefix) is not None:
        # The index decides whether the answer fits: an engine may take the digits for a name.
        return room.index.resolve(query)
    return None
