"""Small files of the kernel, read whole.

Opening one costs more than reading it, so those of a cgroup may be kept open (`Kept`): a list reads hundreds.
Figures come in one piece. Lists (of processes, mounts, interfaces) come in pieces of a page at most, which end where
the next entry does not fit: one that leaves room for an entry is the last.
"""

from __future__ import annotations

import errno
import os
import resource
import threading
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from crishim.stats.values import Vanished

_GONE = frozenset({errno.ENOENT, errno.ENODEV, errno.ESRCH})
_NOT_HERE = _GONE | {errno.EOPNOTSUPP, errno.EACCES, errno.EINVAL, errno.ENOTDIR}
"""EOPNOTSUPP: pressure that is switched off, processes of a threaded cgroup."""
_CHUNK = 1 << 16
_WHOLE = 4096 - 512
"""Bytes up to which a list is known to be whole: a page is the least that the kernel gives before it cuts, and no entry
of the lists that are read is that long."""
_SHARE = 4
_MOST = 8192
"""Descriptors that are kept at most, and at most this part of what the process may have."""


T = TypeVar("T")


class Kept:
    """Files that stay open as long as this lives: of one cgroup, so that they go with it. For several threads.

    What a text was found to mean is remembered with it: most containers rest, and tell the same each time.
    """

    _lock = threading.Lock()
    _count = 0

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        self._meant: dict[str, tuple[bytes, Any]] = {}
        weakref.finalize(self, _close_all, self._open)

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, path: str) -> bool:
        return path in self._open

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
            # As `_read`, which costs as much again as to read: a scrape reads more than a thousand files.
            if (descriptor := self._open.get(path)) is not None:
                return os.pread(descriptor, _CHUNK, 0)
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
            text = piece = self._read(path)
            while len(piece) > _WHOLE and (piece := self._read(path, len(text))):
                text += piece
        except OSError as error:
            if error.errno in _NOT_HERE:
                return b""
            raise
        return text

    def understand(self, path: str, parse: Callable[[bytes], T]) -> T:
        """What `parse` makes of the content, always the same of the same. Raises Vanished."""
        return self._meaning(path, self.read(path), parse)

    def understand_if_there(self, path: str, parse: Callable[[bytes], T]) -> T | None:
        """The same; None where there is no such file."""
        if (text := self.read_if_there(path)) is None:
            return None
        known = self._meant.get(path)
        return known[1] if known is not None and known[0] == text else self._meaning(path, text, parse)

    def understand_list(self, path: str, parse: Callable[[bytes], T]) -> T:
        """The same of a list; of an empty one where there is no such file."""
        return self._meaning(path, self.read_list(path), parse)

    def _meaning(self, path: str, text: bytes, parse: Callable[[bytes], T]) -> T:
        known = self._meant.get(path)
        if known is None or known[0] != text:
            known = self._meant[path] = (text, parse(text))
        meaning: T = known[1]
        return meaning

    def has_folders(self, path: str) -> bool:
        """Whether there are folders in a folder of the kernel's, which counts them as links."""
        try:
            descriptor = self._descriptor(path, os.O_PATH)
            return (os.stat(path) if descriptor is None else os.fstat(descriptor)).st_nlink > 2
        except FileNotFoundError:
            return False

    def _read(self, path: str, offset: int = 0) -> bytes:
        descriptor = self._open.get(path)
        if descriptor is None and (descriptor := self._descriptor(path, os.O_RDONLY)) is None:
            return _read(path)[offset:]
        return os.pread(descriptor, _CHUNK, offset)

    def _descriptor(self, path: str, how: int) -> int | None:
        """An open file's; None where no more may be kept."""
        if (known := self._open.get(path)) is not None:
            return known
        if Kept._count >= _most():
            return None
        descriptor = os.open(path, how | os.O_CLOEXEC)
        with Kept._lock:
            first = self._open.setdefault(path, descriptor)
            Kept._count += first == descriptor
        if first != descriptor:  # another thread was faster
            os.close(descriptor)
        return first


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
    return None if text is None or not text.rstrip().isdigit() else int(text)


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
