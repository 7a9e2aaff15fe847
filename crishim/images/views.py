"""Views of images: folders in which an image's files are seen read-only, for engines without mounts of images.

Who needs a view, and for how long, `crishim.runtime.image_volumes` decides.
"""

from __future__ import annotations

import asyncio
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from crishim.errors import ImageVolumeMountFailed
from crishim.images import overlay

_DIGITS = re.compile(r"[0-9a-f]{64}")
_EMPTY = "empty"


class ImageViews(ABC):
    """Holds one view per image. Methods that change something are idempotent; one call per image at a time."""

    @abstractmethod
    def path(self, image_id: str) -> str:
        """Where the view of this image is, or will be. Raises ImageVolumeMountFailed for what is no image's id."""

    @abstractmethod
    async def show(self, image_id: str, layers: Sequence[str], daemon_pid: int) -> None:
        """Make the view. `layers`: the folders of the image's layers, the topmost first; `daemon_pid`: the engine's
        process, 0 if unknown. Raises ImageVolumeMountFailed, also where the engine would not see the view."""

    @abstractmethod
    async def shown(self, image_id: str) -> bool:
        """Whether the view is there."""

    @abstractmethod
    async def find(self, image_id: str, sub_path: str) -> str:
        """The path of a folder or file in a view that is there, without symbolic links; links inside are followed, but
        never out of the view. Raises ImageVolumeMountFailed where the image has none."""

    @abstractmethod
    async def hide(self, image_id: str) -> None:
        """Take the view away; containers that have it mounted keep it. Raises ImageVolumeMountFailed."""

    @abstractmethod
    async def all(self) -> Sequence[str]:
        """Ids of all images that have a view, or one left half made."""


class OverlayViews(ImageViews):
    """Overlay mounts in a folder: `FOLDER/DIGITS OF THE ID`."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.path.realpath(folder)

    def __repr__(self) -> str:
        return f"OverlayViews({self._folder!r})"

    def path(self, image_id: str) -> str:
        digits = image_id.removeprefix("sha256:")
        if not _DIGITS.fullmatch(digits):
            raise ImageVolumeMountFailed(f"{image_id!r} is not the id of an image")
        return os.path.join(self._folder, digits)

    async def show(self, image_id: str, layers: Sequence[str], daemon_pid: int) -> None:
        empty = os.path.join(self._folder, _EMPTY)
        await asyncio.to_thread(overlay.show, self.path(image_id), layers, empty, daemon_pid)

    async def shown(self, image_id: str) -> bool:
        return await asyncio.to_thread(overlay.is_shown, self.path(image_id))

    async def find(self, image_id: str, sub_path: str) -> str:
        return await asyncio.to_thread(overlay.find_inside, self.path(image_id), sub_path)

    async def hide(self, image_id: str) -> None:
        await asyncio.to_thread(overlay.hide, self.path(image_id))

    async def all(self) -> Sequence[str]:
        try:
            names = await asyncio.to_thread(os.listdir, self._folder)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ImageVolumeMountFailed(f"{self._folder} cannot be listed: {error.strerror}") from error
        return [f"sha256:{name}" for name in sorted(names) if _DIGITS.fullmatch(name)]


class SimulatedViews(ImageViews):
    """For engines without files, and for tests: remembers what it was told, touches nothing.

    `has`: whether an image (by id) has a path, relative to its root.
    """

    def __init__(self, has: Callable[[str, str], bool] = lambda image_id, path: True) -> None:
        self.held: dict[str, tuple[str, ...]] = {}
        """Layers by image."""
        self._has = has

    def path(self, image_id: str) -> str:
        return f"/simulated/views/{image_id.removeprefix('sha256:')}"

    async def show(self, image_id: str, layers: Sequence[str], daemon_pid: int) -> None:
        await asyncio.sleep(0)
        self.held[image_id] = tuple(layers)

    async def shown(self, image_id: str) -> bool:
        await asyncio.sleep(0)
        return image_id in self.held

    async def find(self, image_id: str, sub_path: str) -> str:
        await asyncio.sleep(0)
        if image_id not in self.held or not self._has(image_id, sub_path):
            raise ImageVolumeMountFailed(f"the image has no {sub_path!r}")
        return f"{self.path(image_id)}/{sub_path}"

    async def hide(self, image_id: str) -> None:
        await asyncio.sleep(0)
        self.held.pop(image_id, None)

    async def all(self) -> Sequence[str]:
        await asyncio.sleep(0)
        return list(self.held)
