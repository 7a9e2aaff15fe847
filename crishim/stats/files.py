"""Small files of the kernel, read whole."""

from __future__ import annotations

import errno
import os

from crishim.stats.values import Vanished

_GONE = frozenset({errno.ENOENT, errno.ENODEV, errno.ESRCH})
_NOT_HERE = _GONE | {errno.EOPNOTSUPP, errno.EACCES, errno.EINVAL, errno.ENOTDIR}
"""EOPNOTSUPP: pressure that is switched off, processes of a threaded cgroup."""
_CHUNK = 1 << 16


def read(path: str) -> bytes:
    """The content. Raises Vanished when the file or what it tells of is gone."""
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


def read_number(path: str) -> int | None:
    """A file that holds one number; None where there is none, and for `max`."""
    text = read_if_there(path)
    return None if text is None or not text.strip().isdigit() else int(text)


def table(text: bytes) -> dict[bytes, bytes]:
    """Lines of a key and a number, as in memory.stat."""
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=False))


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(descriptor, _CHUNK)
        if len(text) < 4096:  # the kernel gives such a file in one piece, but for long lists
            return text
        parts = [text]
        while more := os.read(descriptor, _CHUNK):
            parts.append(more)
        return b"".join(parts)
    finally:
        os.close(descriptor)
