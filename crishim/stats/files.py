"""Small files of the kernel, read whole.

Opening one costs more than reading it, so those of a cgroup may be kept open (`Kept`): a list reads hundreds.
Figures come in one piece. Lists (of processes, mounts, interfaces) come in pieces of a page at most, none of which is
ever quite full, so that only an empty one is the end.
"""

from __future__ import annotations

import errno
import os
import resource
import threading
import weakref
from functools import cache

from crishim.stats.values import Vanished

_GONE = frozenset({errno.ENOENT, errno.ENODEV, errno.ESRCH})
_NOT_HERE = _GONE | {errno.EOPNOTSUPP, errno.EACCES, errno.EINVAL, errno.ENOTDIR}
"""EOPNOTSUPP: pressure that is switched off, processes of a threaded cgroup."""
_CHUNK = 1 << 16
_SHARE = 4
_MOST = 8192
"""Descriptors that are kept at most, and at most this part of what the process may have."""


class Kept:
    """Files that stay open as long as this lives: of one cgroup, so that they go with it. For several threads."""

    _lock = threading.Lock()
    _count = 0

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        weakref.finalize(self, _close_all, self._open)

    def __len__(self) -> int:
        return len(self._open)

    def read(self, path: str) -> bytes:
        """The content. Raises Vanished when the file or what it tells of is gone."""
        try:
            return self._read(path)
        except OSError as error:
            if error.errno in _GONE:
                raise Vanished(path) from error
            raise

    def read_if_there(self, path: str) -> bytes | None:
        """The content, None where there is no such file, or no such figure behind it."""
        try:
            return self._read(path)
        except OSError as error:
            if error.errno in _NOT_HERE:
                return None
            raise

    def read_number(self, path: str) -> int | None:
        """A file that holds one number; None where there is none, and for `max`."""
        return number(self.read_if_there(path))

    def read_list(self, path: str) -> bytes:
        """A list; empty where there is no such file."""
        try:
            text = self._read(path)
            while text and (more := self._read(path, len(text))):
                text += more
        except OSError as error:
            if error.errno in _NOT_HERE:
                return b""
            raise
        return text

    def _read(self, path: str, offset: int = 0) -> bytes:
        descriptor = self._open.get(path)
        if descriptor is None:
            if Kept._count >= _most():
                return _read(path)[offset:]
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            with Kept._lock:
                first = self._open.setdefault(path, descriptor)
                Kept._count += first == descriptor
            if first != descriptor:  # another thread was faster
                os.close(descriptor)
                descriptor = first
        return os.pread(descriptor, _CHUNK, offset)


def _close_all(descriptors: dict[str, int]) -> None:
    with Kept._lock:
        Kept._count -= len(descriptors)
    for descriptor in descriptors.values():
        os.close(descriptor)


@cache
def _most() -> int:
    """How many may be kept: a part of what the process may have, as connections and plugins need some, too."""
    return min(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE, _MOST)


def read(path: str) -> bytes:
    """The content of a file that is opened for it. Raises Vanished when the file or what it tells of is gone."""
    try:
        return _read(path)
    except OSError as error:
        if error.errno in _GONE:
            raise Vanished(path) from error
        raise


def read_if_there(path: str) -> bytes | None:
    """The content, None where there is no such file, or no such figure behind it."""
    try:
        return _read(path)
    except OSError as error:
        if error.errno in _NOT_HERE:
            return None
        raise


def number(text: bytes | None) -> int | None:
    """A content that is one number; None for none, and for `max`."""
    return None if text is None or not text.strip().isdigit() else int(text)


def table(text: bytes) -> dict[bytes, bytes]:
    """Lines of a key and a number, as in memory.stat."""
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=False))


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while more := os.read(descriptor, _CHUNK):
            parts.append(more)
        return b"".join(parts)
    finally:
        os.close(descriptor)
