"""`Images`: the image verbs as one object, for `rpc` and for the pods' verbs.

Each verb's rules are in a module of its own, noun first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager

from crishim.aiokit.background import Background
from crishim.engine.api import Engine
from crishim.engine.values import EngineEvent, EngineFacts, EngineImage
from crishim.images import image_fs, image_lookup, image_pull, image_remove
from crishim.images.core import ImageRoom, ImageSettings
from crishim.images.image_refresh import ImageReader
from crishim.images.image_sandbox import SandboxImage
from crishim.images.index import ImageIndex
from crishim.model import AuthConfig, ImageFilter, ImageSpec

__all__ = ["ImageSettings", "Images"]


class Images:
    """The node's images.

    Arguments are those of `ImageRoom`: how to reach the engine, whose tasks outlive a call, who uses an image, which
    runtime handlers there are, what the engine last said of itself. Raises InvalidArgument for a `sandbox_image` that
    is no reference.
    """

    def __init__(
        self,
        get_engine: Callable[[], Engine],
        background: Background,
        *,
        settings: ImageSettings | None = None,
        used_by: Callable[[str], Sequence[str]] = lambda image_id: (),
        handlers: Callable[[], Collection[str]] = tuple,
        facts: Callable[[], EngineFacts | None] = lambda: None,
    ) -> None:
        self._room = ImageRoom(
            get_engine=get_engine,
            background=background,
            settings=settings or ImageSettings(),
            used_by=used_by,
            handlers=handlers,
            facts=facts,
        )
        self._reader = ImageReader(self._room)
        self._sandbox = SandboxImage(self._room)

    def __repr__(self) -> str:
        return f"<Images {self._room.index!r}>"

    # --- kept true by the engine link

    async def refresh(self) -> None:
        """Compare with a list of the engine's. On failure the index stays as it is, and the error is raised."""
        await self._reader.refresh()

    def on_event(self, event: EngineEvent) -> None:
        """Take note of an event; those that are no image's are ignored."""
        self._reader.on_event(event)

    # --- reads from memory

    @property
    def index(self) -> ImageIndex:
        """What is known, with revisions for those who keep ready-made messages."""
        return self._room.index

    def list(self, image_filter: ImageFilter | None = None) -> Sequence[EngineImage]:
        """ListImages. No engine call."""
        return image_lookup.list_images(self._room, image_filter)

    async def status(self, spec: ImageSpec) -> EngineImage | None:
        """ImageStatus; None for a missing image. No engine call if the index knows it."""
        return await image_lookup.find(self._room, spec.image)

    def pinned(self, image: EngineImage) -> bool:
        """Whether it is a sandbox image. Advice: RemoveImage obeys all the same, and the next pod loads it again."""
        return self._sandbox.is_pinned(image)

    async def fs_info(self) -> image_fs.ImageFsInfo:
        """ImageFsInfo. No engine call."""
        return await image_fs.fs_info(self._room)

    # --- for the pods' verbs

    async def resolve_for_container(self, image: str, *, field: str = "config.image.image") -> EngineImage:
        """The image of a new container, or of a mount in it, by id or name. Raises ImageNotFound, InvalidArgument."""
        return await image_lookup.resolve_for_container(self._room, image, field=field)

    async def ensure_sandbox_image(self, *, wait: bool = True) -> str:
        """Id of the sandbox image, which is loaded or pulled if the engine lacks it. No engine call if it does not.

        Without `wait` nobody waits for a pull: it begins, and ImageNotFound is raised.
        """
        return await self._sandbox.ensure(wait=wait)

    def hold(self, image_id: str) -> AbstractContextManager[None]:
        """Let no removal of the image begin inside the block: around the engine's create of a container."""
        return self._room.hold(image_id)

    async def recheck(self, image_id: str) -> EngineImage | None:
        """Ask the engine for an image again: after a create that was refused because there is no such image."""
        return await self._room.look(image_id)

    # --- changes

    async def pull(self, spec: ImageSpec, auth: AuthConfig | None = None) -> str:
        """PullImage. Returns the image's id, which is `image_ref` and `Image.id` alike."""
        return (await image_pull.pull(self._room, spec, auth)).id

    async def remove(self, spec: ImageSpec) -> None:
        """RemoveImage: with all its names; a missing one is success. Raises ImageInUse, then no name is lost."""
        await image_remove.remove(self._room, spec, self._reader.suspect)
