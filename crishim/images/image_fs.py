"""ImageFsInfo: where images lie and how much they take, from memory and one look at the file system.

A kubelet asks this in its handshake and does not start without an answer, so it never depends on the engine being up.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

from crishim.aiokit.steps import step
from crishim.engine.values import EngineFacts
from crishim.images.core import ImageRoom

DEFAULT_DATA_ROOT = Path("/var/lib/docker")
"""Where an engine that was never reached most likely keeps its data."""
CONTAINERD_ROOT = Path("/var/lib/containerd")
"""Where a containerd of the machine's own keeps them, when the engine stores images there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemUse:
    """How full a file system is with images or writable layers (CRI `FilesystemUsage`)."""

    timestamp: int
    """Nanoseconds since the epoch, never 0."""
    mountpoint: str
    """An existing folder on it: one that does not exist fails the whole summary of a node."""
    used_bytes: int
    """Bytes of all images, layers that several share counted with each."""
    inodes_used: int
    """Inodes in use on the whole file system, 0 where it counts none (btrfs)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFsInfo:
    """One file system each, the same value unless they truly lie apart (CRI `ImageFsInfoResponse`)."""

    image: FilesystemUse
    containers: FilesystemUse


async def fs_info(room: ImageRoom) -> ImageFsInfo:
    """The answer, also while the engine is away (then with its last known images and folder)."""
    used = sum(image.size for image in room.index.images())
    with step("look at the image file system"):
        folder, inodes = await asyncio.to_thread(_look, room.facts())
    use = FilesystemUse(timestamp=time.time_ns(), mountpoint=str(folder), used_bytes=used, inodes_used=inodes)
    # Engines keep writable layers in the store of the images' layers, whichever store that is.
    return ImageFsInfo(image=use, containers=use)


def storage_folder(facts: EngineFacts | None) -> Path:
    """The folder that holds the layers, as far as it exists where crishim runs; its nearest existing parent else."""
    root = Path(facts.data_root) if facts is not None and facts.data_root else DEFAULT_DATA_ROOT
    if facts is None:
        return _existing(root)
    if facts.containerd_store:
        own = root / "containerd" / "daemon"
        # An engine that started its containerd itself keeps it in its own root; the folder exists in other cases, too.
        outside = CONTAINERD_ROOT.is_dir() and not any(own.glob("io.containerd.*"))
        return _existing(CONTAINERD_ROOT if outside else own if own.is_dir() else root)
    layers = root / facts.storage_driver
    # Only a driver's folder with a file system of its own tells more than the engine's root.
    return layers if facts.storage_driver and layers.is_mount() else _existing(root)


def _look(facts: EngineFacts | None) -> tuple[Path, int]:
    folder = storage_folder(facts)
    status = os.statvfs(folder)
    return folder, max(status.f_files - status.f_ffree, 0)


def _existing(folder: Path) -> Path:
    """The folder, or the nearest of its parents that is one here: the engine may run in another mount namespace."""
    for candidate in (folder, *folder.parents):
        if candidate.is_dir():
            return candidate
    return Path("/")
