"""The sandbox image: there when a pod needs it, whatever image garbage collection did meanwhile.

The embedded one is loaded from the package, without a registry; a configured one is pulled. All that ask at once share
one load, and where the index has the image no engine call is made.
"""

from __future__ import annotations

import asyncio
import platform

from crishim.aiokit.steps import step
from crishim.engine.values import EngineImage
from crishim.errors import EngineError, ImageNotFound, Kind
from crishim.images import image_lookup, image_pull
from crishim.images.core import ImageRoom
from crishim.images.credentials_file import read_credentials
from crishim.images.embedded import LABELS, REPOSITORY, EmbeddedImage, make_archive
from crishim.images.reference import parse_query, parse_reference
from crishim.model import ImageSpec

FIELD = "sandbox_image"


class SandboxImage:
    """Knows which image it is and sees to it that the engine has it."""

    def __init__(self, room: ImageRoom) -> None:
        self._room = room
        self._configured = room.settings.sandbox_image
        self._embedded: EmbeddedImage | None = None
        if self._configured:
            parse_query(self._configured, field=FIELD)  # a bad setting is told at the start, not by the first pod

    async def ensure(self, *, wait: bool = True) -> str:
        """The image's id; loads or pulls it if the engine lacks it. Errors are those of a load or a pull.

        Without `wait` a pull goes on in the background, and ImageNotFound is raised.
        """
        if (known := self.known()) is not None:
            return known.id
        if not wait and self._configured:
            if (found := await image_lookup.find(self._room, self._configured, field=FIELD)) is not None:
                return found.id
            if not len(self._room.loads):
                self._room.background.start(self.ensure(), name="pull the sandbox image")
            raise ImageNotFound(f"the sandbox image {self._configured} is not there yet: it is being pulled")
        # The wait of those who only join is as much the engine's as that of the first.
        joins = len(self._room.loads) > 0
        with step("wait for the sandbox image", engine=joins):
            return (await self._room.loads.join(FIELD, self._fetch, name="load the sandbox image")).id

    def known(self) -> EngineImage | None:
        """The image if the index has it."""
        if self._configured:
            return self._room.index.resolve(parse_query(self._configured, field=FIELD))
        if self._embedded is None:
            return None  # nobody asked for it yet
        return self._genuine(self._room.index.resolve(self._embedded.tag))

    def is_pinned(self, image: EngineImage) -> bool:
        """Whether an image is a sandbox image (CRI `Image.pinned`): advice to the kubelet's garbage collection."""
        if not self._configured:
            # The labels alone anybody's image may have, and the name alone, too.
            return _has_labels(image) and any(tag.rpartition(":")[0] == REPOSITORY for tag in image.tags)
        known = self.known()
        return known is not None and known.id == image.id

    async def _fetch(self) -> EngineImage:
        if self._configured:
            return await self._fetch_configured()
        if self._embedded is None:
            facts = self._room.facts()
            self._embedded = await asyncio.to_thread(make_archive, facts.architecture if facts else platform.machine())
        embedded = self._embedded
        if (found := self._genuine(await image_lookup.find(self._room, embedded.tag, field=FIELD))) is not None:
            return found
        engine = self._room.get_engine()
        with step("engine load image", engine=True):
            await engine.load_image(embedded.tar)
        if (found := self._genuine(await self._room.look(embedded.tag))) is None:
            # Either somebody took it away this moment, or the engine stored it under another name.
            raise EngineError(
                f"the engine loaded the sandbox image {embedded.tag}, and does not have it", kind=Kind.UNAVAILABLE
            )
        return found

    async def _fetch_configured(self) -> EngineImage:
        if (found := await image_lookup.find(self._room, self._configured, field=FIELD)) is not None:
            return found
        if parse_query(self._configured, field=FIELD).name is None:
            raise ImageNotFound(f"the configured sandbox image {self._configured} is an id that the engine lacks")
        parse_reference(self._configured, field=FIELD)
        path = self._room.settings.sandbox_image_credentials
        auth = await asyncio.to_thread(read_credentials, path, self._configured) if path else None
        return await image_pull.pull(self._room, ImageSpec(image=self._configured), auth)

    def _genuine(self, image: EngineImage | None) -> EngineImage | None:
        """The image if it is ours: a tag is no proof, anybody can give it to something else."""
        return image if image is not None and _has_labels(image) else None


def _has_labels(image: EngineImage) -> bool:
    return all(image.labels.get(key) == value for key, value in LABELS.items())
