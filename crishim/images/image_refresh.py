"""Keeping the index true: a list at each (re)connection and now and then, one inspect for each thing an event names.

An event never says what an image is like now; it marks the image dirty, and the engine is asked. While one is being
asked for, further events of it are taken together into one more question.
"""

from __future__ import annotations

import asyncio
import logging

from crishim.aiokit.steps import step
from crishim.engine.values import EngineEvent
from crishim.errors import CRIError, EngineUnavailable
from crishim.images.core import ImageRoom
from crishim.images.reference import is_id

_AT_ONCE = 4
"""Inspects under way together: a `docker image prune` tells of hundreds of images at once."""
_CHANGES_NOTHING = frozenset({"push", "save"})

log = logging.getLogger(__name__)


class ImageReader:
    """Reads images from the engine into the index."""

    def __init__(self, room: ImageRoom) -> None:
        self._room = room
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._again: dict[str, bool] = {}
        self._refreshing = asyncio.Lock()
        room.index.on_tag_lost = self.suspect

    def __repr__(self) -> str:
        return f"<ImageReader reading {sorted(self._again)}>"

    async def refresh(self) -> None:
        """Make the index what the engine lists. On failure it stays what it was, and the error is raised."""
        index = self._room.index
        async with self._refreshing:
            engine = self._room.get_engine()
            with index.reading() as asked:
                with step("engine list images", engine=True):
                    images = await engine.list_images()
                index.replace_all(images, asked)

    def on_event(self, event: EngineEvent) -> None:
        """Note that an image may have changed (pull, tag, untag, delete, load, import, prune)."""
        if event.kind == "image" and event.action not in _CHANGES_NOTHING:
            self.suspect(event.id)

    def suspect(self, reference: str) -> None:
        """Read one image anew, soon, by id or by name."""
        if not reference:
            return  # `prune` names nothing; what it took was told image by image
        if reference in self._again:
            self._again[reference] = True
            return
        self._again[reference] = False
        self._room.background.start(self._read(reference), name=f"read image {reference[:80]}")

    async def _read(self, reference: str) -> None:
        try:
            while True:
                self._again[reference] = False
                async with self._turn:
                    await self._read_once(reference)
                if not self._again[reference]:
                    return
        except EngineUnavailable:
            log.debug("image %s is not read: the engine is away; the list at its return tells", reference)
        except CRIError as error:
            log.warning("image %s cannot be read, the index may be behind until the next list: %s", reference, error)
        finally:
            del self._again[reference]

    async def _read_once(self, reference: str) -> None:
        """One inspect; a name that is gone leaves the image that had it to be read."""
        if await self._room.look(reference) is not None or is_id(reference):
            return
        try:
            known = self._room.index.resolve(reference)
        except CRIError:
            return  # an event's word that is no reference: nothing here can be known by it
        if known is not None:
            await self._room.look(known.id)
