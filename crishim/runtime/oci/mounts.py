"""Mounts: their options, and what is shown where (config.md, "Mounts")."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from crishim.model import Mount
from crishim.runtime.oci.parts import Config, objects, texts
from crishim.runtime.oci.wish import MountOption, UnfitConfig

SHM = "/dev/shm"  # noqa: S108 - a place in a container, not a file of ours
_OPPOSITE: Mapping[str, str] = {"noexec": "exec", "nodev": "dev", "nosuid": "suid", "ro": "rw"}
_OPTIONS: tuple[MountOption, ...] = ("noexec", "nodev", "nosuid")
_RECURSIVE_READ_ONLY = "rro"
_BIND = ["rbind", "rprivate"]


def destination_of(path: str) -> str:
    """A mount's place in the container as the engine writes it into the configuration."""
    return posixpath.normpath("/" + path.lstrip("/"))


def asked_options(mount: Mount) -> tuple[MountOption, ...]:
    """Options of a request's mount that the front can give it (CRI `Mount`). An image is one mount, and read-only."""
    options = [option for option in _OPTIONS if option in mount.mount_options]
    of_image = mount.image is not None and mount.image.image
    return (*options, "rro") if mount.recursive_read_only and not of_image else tuple(options)


def with_mount_options(config: Config, wished: Mapping[str, Sequence[MountOption]]) -> Config:
    """The configuration with options for the mounts at these destinations. Raises UnfitConfig where there is none.

    Where several are mounted at one place the last one is seen, and is the one that is meant.
    """
    if not wished:
        return config
    mounts = [dict(mount) for mount in objects(config, "mounts")]
    for destination, options in wished.items():
        number = _last(mounts, destination)
        if number is None:
            raise UnfitConfig(f"nothing is mounted at {destination}")
        mounts[number]["options"] = _with_options(texts(mounts[number], "options"), options)
    return {**config, "mounts": mounts}


def _with_options(given: Sequence[str], wished: Sequence[str]) -> list[str]:
    """`rro` takes the place of `ro`; the opposites of what is wished go."""
    against = {_OPPOSITE[option] for option in wished if option in _OPPOSITE}
    if _RECURSIVE_READ_ONLY in wished:
        against |= {"ro", "rw"}
    kept = [option for option in given if option not in against]
    return [*kept, *(option for option in dict.fromkeys(wished) if option not in kept)]


def with_files(config: Config, files: Mapping[str, str]) -> Config:
    """The configuration with these files of the host at their destinations.

    A mount of the engine's keeps its options and shows another file; where there is none, one is added.
    """
    if not files:
        return config
    mounts = [dict(mount) for mount in objects(config, "mounts")]
    for destination, source in files.items():
        number = _last(mounts, destination)
        if number is None:
            mounts.append({"destination": destination, "type": "bind", "source": source, "options": list(_BIND)})
        else:
            mounts[number]["source"] = source
    return {**config, "mounts": mounts}


def with_shm(config: Config, source: str, size: int) -> Config:
    """The configuration with another /dev/shm: a folder of the host, or else one of its own with this size.

    It never executes nor holds devices, as that of the engines does not.
    """
    if not source and not size:
        return config
    flags = ["nosuid", "noexec", "nodev"]
    mount: dict[str, Any] = {"destination": SHM}
    if source:
        mount |= {"type": "bind", "source": source, "options": [*_BIND, *flags]}
    else:
        mount |= {"type": "tmpfs", "source": "shm", "options": [*flags, "mode=1777", f"size={size}"]}
    mounts = list(objects(config, "mounts"))
    number = _last(mounts, SHM)
    if number is None:
        mounts.append(mount)
    else:
        mounts[number] = mount
    return {**config, "mounts": mounts}


def _last(mounts: Sequence[Config], destination: str) -> int | None:
    found = [number for number, mount in enumerate(mounts) if mount.get("destination") == destination]
    return found[-1] if found else None
