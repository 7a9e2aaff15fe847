"""A container's writable layer: where it lies, and how much it holds.

There is no figure of it anywhere: somebody must walk it, as `du` does. A `Walk` can be done bit by bit.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from crishim.stats.files import read_if_there
from crishim.stats.places import unescape
from crishim.stats.values import Layer

_BLOCK = 512
"""Bytes of a block as stat counts them."""
_MERGED = "/merged"


def find_layer(proc: str, pid: int, merged_dir: str) -> str | None:
    """The folder that takes the container's writes, or None where the storage driver has none that is visible here.

    A running container's root mount tells it, whichever store the engine has; for another it lies beside what the
    engine says that it would mount.
    """
    if pid and (table := read_if_there(f"{proc}/{pid}/mountinfo")) and (upper := upper_folder(table)):
        return upper
    if merged_dir.endswith(_MERGED):
        return merged_dir.removesuffix(_MERGED) + "/diff"
    return None


def upper_folder(mountinfo: bytes) -> str | None:
    """The upper folder of the overlay that is mounted at `/` (proc(5), mountinfo)."""
    for line in mountinfo.decode(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        if before.split(" ")[4] != "/":
            continue
        kind, _, options, *_ = *after.split(" ", 2), "", ""
        if kind == "overlay":
            for option in options.split(","):
                if option.startswith("upperdir="):
                    return unescape(option.removeprefix("upperdir="))
    return None


@dataclass
class Walk:
    """One count of a folder and all in it: disk blocks, and inodes, each once."""

    folder: str
    used_bytes: int = 0
    inodes: int = 0
    _open: list[str] = field(default_factory=list)
    _linked: set[tuple[int, int]] = field(default_factory=set)
    _begun: bool = False

    @property
    def done(self) -> bool:
        return self._begun and not self._open

    def go_on(self, entries: int) -> bool:
        """Look at about so many entries more; whether all were looked at. What vanishes meanwhile does not count."""
        if not self._begun:
            self._begun = True
            try:
                self._count(os.stat(self.folder, follow_symlinks=False))
            except OSError:
                return True
            self._open.append(self.folder)
        while self._open and entries > 0:
            entries -= self._look_into(self._open.pop())
        return not self._open

    def _look_into(self, folder: str) -> int:
        looked = 0
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    looked += 1
                    try:
                        status = entry.stat(follow_symlinks=False)
                        if entry.is_dir(follow_symlinks=False):
                            self._open.append(entry.path)
                    except OSError:
                        continue
                    self._count(status)
        except OSError:
            return max(looked, 1)
        return max(looked, 1)

    def _count(self, status: os.stat_result) -> None:
        if status.st_nlink > 1 and not _is_folder(status):
            if (status.st_dev, status.st_ino) in self._linked:
                return
            self._linked.add((status.st_dev, status.st_ino))
        self.used_bytes += status.st_blocks * _BLOCK
        self.inodes += 1

    def layer(self, time: int) -> Layer:
        """What was counted so far, as of `time` (nanoseconds since the epoch)."""
        return Layer(time, self.used_bytes, self.inodes, complete=self.done)


def _is_folder(status: os.stat_result) -> bool:
    return (status.st_mode & 0o170000) == 0o040000
