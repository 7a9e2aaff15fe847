"""The server's unix socket: one owner at a time, readable by the group, gone when the owner goes.

gRPC itself replaces any socket file, a living server's too, and makes it readable by everybody. So whoever serves holds
a lock file beside the socket for life, and the socket is bound under a umask.
"""

from __future__ import annotations

import errno
import os
import socket as sockets
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from crishim.lock_file import LockFile, LockHeld, Taken

PATH_LIMIT = 107
"""Bytes of a unix socket's path: `sun_path` holds 108 with its end mark (unix(7))."""

_UMASK = 0o117
"""Leaves 0660 of a socket's 0777."""


class SocketTaken(Taken):
    """Another process serves on this path, or what lies there is no socket. The text is one line for people."""


class ServerSocket:
    """The right to serve on a path, held from `with` to its end.

    Raises SocketTaken on entering where another process holds it, and OSError where the folder cannot be used.
    """

    def __init__(self, path: Path) -> None:
        if len(os.fsencode(path)) > PATH_LIMIT:
            raise ValueError(f"the path of a unix socket may have {PATH_LIMIT} bytes, this one has more: {path}")
        self.path = path
        self.lock_path = path.with_name(path.name + ".lock")
        self._lock = LockFile(self.lock_path)
        self._bound: tuple[int, int, int] | None = None

    def __repr__(self) -> str:
        state = "free" if not self._lock.held else "held" if self._bound is None else "bound"
        return f"<ServerSocket {self.path} {state}>"

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.take()
        except LockHeld as held:
            raise SocketTaken(_taken(self.path, held.holder)) from None
        try:
            self._clear_path()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bound is not None and self._bound == _identity(self.path):
            self.path.unlink(missing_ok=True)
        self._bound = None
        self._lock.release()

    @contextmanager
    def binding(self) -> Iterator[None]:
        """Inside the block the socket is bound by whoever does it; its mode becomes 0660. No thread may run yet that
        makes files, because the umask is the process's."""
        before = os.umask(_UMASK)
        try:
            yield
        finally:
            os.umask(before)
        self._bound = _identity(self.path)
        if self._bound is None:
            raise OSError(errno.ENOENT, "the socket was not bound", str(self.path))

    def _clear_path(self) -> None:
        """Remove a socket that nobody listens on; anything else that lies there is not ours to remove."""
        try:
            mode = self.path.lstat().st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(mode):
            raise SocketTaken(f"{self.path} exists and is not a socket; move it away or choose another --listen")
        with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM | sockets.SOCK_NONBLOCK) as probe:
            try:
                probe.connect(os.fspath(self.path))
            except (ConnectionRefusedError, FileNotFoundError):
                self.path.unlink(missing_ok=True)
                return
            except BlockingIOError:  # somebody listens, with a full queue
                raise SocketTaken(_taken(self.path, "")) from None
            pid, _, _ = struct.unpack("3i", probe.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, 12))
            raise SocketTaken(_taken(self.path, str(pid)))


def _identity(path: Path) -> tuple[int, int, int] | None:
    """What tells a socket file from its successor: an inode's number is soon used again, its birth is in its mtime."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _taken(path: Path, pid: str) -> str:
    who = f"process {pid}" if pid else "another process"
    return f"{path} is served by {who}; stop it, or choose another --listen"
