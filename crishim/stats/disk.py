"""The file system on which the writable layers lie, and names of block devices."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import NamedTuple

from crishim.stats.files import read_if_there
from crishim.stats.places import unescape


class Disk(NamedTuple):
    """A file system as a whole."""

    device: str
    """As it is mounted, such as `/dev/vda1`."""
    size: int
    """Bytes."""
    inodes: int
    inodes_free: int


def look_at_disk(proc: str, folder: str) -> Disk:
    """The file system of this folder."""
    status, use = os.stat(folder), os.statvfs(folder)
    number = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    device = mounted_device(proc, number) or number
    return Disk(device, use.f_blocks * use.f_frsize, use.f_files, use.f_ffree)


@lru_cache(64)
def mounted_device(proc: str, number: str) -> str:
    """What is mounted under this device number, such as `254:0`; empty where the mount table does not tell."""
    for line in (read_if_there(f"{proc}/self/mountinfo") or b"").decode(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        if before.split(" ")[2] == number:
            return unescape(after.split(" ")[1])
    return ""


def block_device(major: int, minor: int, folder: str = "/sys/dev/block") -> str:
    """A block device's name by its number, or the number of one that has gone. No two have the same at a time."""
    number = f"{major}:{minor}"
    try:
        return "/dev/" + os.path.basename(os.readlink(f"{folder}/{number}"))
    except OSError:
        return number
