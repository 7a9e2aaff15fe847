"""Image volumes on engines without mounts of images (CRI `Mount.image`): by views of our own, one per image.

What a view is made of, and what keeps the engine from removing the image's layers, is a container of the image that is
never started (the *holder*); its labels say so, and no list of CRI shows it. A view is needed while a container of the
index mounts its image, or one is being made that will: nothing is counted that a crash could falsify. What nobody needs
goes when its last container does, or at the next comparison with the engine.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from crishim.aiokit.locks import KeyedLocks
from crishim.aiokit.steps import step
from crishim.aiokit.undo import UndoStack
from crishim.checkpoint.record import ContainerRecord
from crishim.engine.api import Engine
from crishim.engine.features import Feature, has
from crishim.engine.values import ContainerSpec, EngineContainer, EngineFacts, EngineMount
from crishim.errors import CRIError, EngineConflict, EngineNotFound, EngineUnavailable, ImageVolumeMountFailed
from crishim.images.views import ImageViews
from crishim.runtime import labels
from crishim.runtime.index import Index
from crishim.runtime.objects import Container

log = logging.getLogger(__name__)


class ImageVolumes:
    """Makes views, and takes them away when nobody needs them.

    `engine`, `facts`: the engine as it is now, and what it said of itself; raise EngineUnavailable while it is away.
    """

    def __init__(
        self,
        views: ImageViews,
        *,
        engine: Callable[[], Engine],
        facts: Callable[[], EngineFacts],
        index: Index,
        locks: KeyedLocks,
    ) -> None:
        self._views = views
        self._engine = engine
        self._facts = facts
        self._index = index
        self._locks = locks
        self._claims: list[set[str]] = []
        self._there: set[str] = set()
        self._looked = False
        """Whether what an earlier life of the server left is known."""

    def __repr__(self) -> str:
        return f"<ImageVolumes {len(self._there)} views, {len(self._claims)} claims>"

    # --- for CreateContainer

    @asynccontextmanager
    async def claiming(self) -> AsyncIterator[set[str]]:
        """What `show` makes for the yielded claim is needed in the block; afterwards, only what the index tells of.

        The block ends when the container is in the index, or undone.
        """
        claim: set[str] = set()
        self._claims.append(claim)
        try:
            yield claim
        finally:
            self._claims = [other for other in self._claims if other is not claim]

    async def show(self, undo: UndoStack, claim: set[str], spec: ContainerSpec) -> ContainerSpec:
        """The spec with binds of views in place of mounts of images, where the engine has no such mounts.

        The views are there on return. Raises ImageVolumeMountFailed and the engine's errors.
        """
        images = frozenset(mount.source for mount in spec.mounts if mount.image)
        if not images or has(self._facts(), Feature.IMAGE_MOUNTS):
            return spec
        claim |= images
        undo.push("image views", lambda: self._give_up(claim))
        for image_id in sorted(images):
            await undo.effect("show image", self._ensure(image_id), lambda _: None)
        return replace(spec, mounts=tuple([await self._bound(mount) for mount in spec.mounts]))

    async def _bound(self, mount: EngineMount) -> EngineMount:
        if not mount.image:
            return mount
        source = self._views.path(mount.source)
        if mount.image_subpath:
            try:
                source = await self._views.find(mount.source, mount.image_subpath)
            except ImageVolumeMountFailed as error:
                raise ImageVolumeMountFailed(f"{mount.target}: {error.message.removeprefix(error.prefix)}") from error
        return EngineMount(source=source, target=mount.target, readonly=True)

    async def _give_up(self, claim: set[str]) -> None:
        images = sorted(claim)
        claim.clear()
        for image_id in images:
            await self._release(image_id)

    # --- for StartContainer and RemoveContainer

    async def restore(self, container: Container) -> None:
        """Make the views again that a container was created with, should they be gone: after a reboot, for one.

        Raises ImageVolumeMountFailed and the engine's errors.
        """
        for image_id in container.record.mounted_images:
            place = self._views.path(image_id)
            if any(mount.source == place or mount.source.startswith(f"{place}/") for mount in container.live.mounts):
                await self._ensure(image_id)

    async def release(self, record: ContainerRecord) -> None:
        """Take away what the container, which is no more in the index, was the last to need.

        What cannot be taken away now is told in the log, and goes later.
        """
        await self._release_all(record.mounted_images & self._there)

    async def _release_all(self, images: Iterable[str]) -> None:
        for image_id in images:
            try:
                await self._release(image_id)
            except CRIError as error:
                log.warning("the view of image %s cannot be taken away yet: %s", image_id, error)

    # --- for the node

    async def sweep(self) -> None:
        """Take away what nobody needs, be it of an earlier life of the server. The index knows all containers.

        Raises EngineUnavailable; what else goes wrong is told in the log, and tried again at the next call. No engine
        call where there is nothing, but for the first one.
        """
        try:
            if not self._looked:
                await self._look()
                self._looked = True
        except EngineUnavailable:
            raise
        except CRIError as error:
            log.warning("what views of images there are is not known yet: %s", error)
        await self._release_all([image_id for image_id in self._there if not self._needed(image_id)])

    async def _look(self) -> None:
        self._there.update(await self._views.all())
        for container_id in await self._engine().list_containers({labels.TYPE: labels.IMAGE_VIEW}):
            with suppress(EngineNotFound):
                holder = await self._engine().inspect(container_id)
                self._there.add(holder.labels.get(labels.VIEWED_IMAGE, holder.image_id))

    # --- one view

    def _needed(self, image_id: str) -> bool:
        return any(image_id in claim for claim in self._claims) or any(
            image_id in container.record.mounted_images for container in self._index.containers()
        )

    async def _ensure(self, image_id: str) -> None:
        async with self._locks.hold(_lock(image_id)):
            if image_id in self._there and await self._views.shown(image_id):
                return
            self._there.add(image_id)
            with step("image view"):
                holder = await self._hold(image_id)
                if not holder.image_layers:
                    raise ImageVolumeMountFailed(f"the engine does not tell where the layers of image {image_id} are")
                await self._views.show(image_id, holder.image_layers, self._facts().daemon_pid)

    async def _hold(self, image_id: str) -> EngineContainer:
        """The image's holder, which is made if there is none."""
        engine, name = self._engine(), _holder(image_id)
        try:
            holder = await engine.inspect(name)
        except EngineNotFound:
            marks = {labels.TYPE: labels.IMAGE_VIEW, labels.VIEWED_IMAGE: image_id}
            spec = ContainerSpec(image=image_id, labels=marks, entrypoint=("never-started",))
            try:
                await engine.create(name, spec)
            except EngineNotFound as error:
                raise ImageVolumeMountFailed(f"image {image_id} was removed") from error
            except EngineConflict:
                log.info("the engine had made %s though its answer was lost", name)
            holder = await engine.inspect(name)
        if holder.labels.get(labels.VIEWED_IMAGE) != image_id:
            raise ImageVolumeMountFailed(f"the engine's name {name} is held by container {holder.id[:13]}")
        return holder

    async def _release(self, image_id: str) -> None:
        async with self._locks.hold(_lock(image_id)):
            if self._needed(image_id):
                return
            with step("image view"):
                await self._views.hide(image_id)
                engine = self._engine()
                with suppress(EngineNotFound):
                    holder = await engine.inspect(_holder(image_id))
                    if holder.labels.get(labels.VIEWED_IMAGE) == image_id:
                        await engine.remove(holder.id)
            self._there.discard(image_id)


def _lock(image_id: str) -> str:
    return f"view of {image_id}"


def _holder(image_id: str) -> str:
    return f"crishim-view-{image_id.removeprefix('sha256:')}"
