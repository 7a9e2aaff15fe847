"""inotify, which the standard library lacks: which folders had a change in them, and which files were written."""

from __future__ import annotations

import ctypes
import os
import sys

IN_MODIFY, IN_MOVED_TO, IN_CREATE = 0x2, 0x80, 0x100
IN_Q_OVERFLOW, IN_IGNORED = 0x4000, 0x8000
_ONLY_FOLDERS, _NO_BLOCK, _CLOEXEC = 0x01000000, 0o4000, 0o2000000
_HEAD = 16


class Inotify:
    """One queue of the kernel's for many folders. OSError where the kernel gives no more watches."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._libc.inotify_init1(_NO_BLOCK | _CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def close(self) -> None:
        """Watch nothing any more."""
        os.close(self.fd)

    def add(self, folder: str) -> int:
        """Watch what is written, made and renamed in a folder; the watch's number."""
        return self._add(folder, IN_MODIFY | IN_MOVED_TO | IN_CREATE | _ONLY_FOLDERS)

    def add_file(self, path: str) -> int:
        """Watch what is written to one file, by the kernel itself in its own file systems; the watch's number."""
        return self._add(path, IN_MODIFY)

    def _add(self, path: str, mask: int) -> int:
        number: int = self._libc.inotify_add_watch(self.fd, os.fsencode(path), ctypes.c_uint32(mask))
        if number < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
        return number

    def remove(self, number: int) -> None:
        """End a watch; one that ended by itself is no error."""
        self._libc.inotify_rm_watch(self.fd, number)

    def read(self) -> dict[int, int]:
        """What happened: the watch's number to its masks, joined. -1: events were lost, so anything may have."""
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return {}
        found: dict[int, int] = {}
        at = 0
        while at < len(data):
            number = int.from_bytes(data[at : at + 4], sys.byteorder, signed=True)
            mask = int.from_bytes(data[at + 4 : at + 8], sys.byteorder)
            found[number] = found.get(number, 0) | mask
            at += _HEAD + int.from_bytes(data[at + 12 : at + 16], sys.byteorder)
        return found
