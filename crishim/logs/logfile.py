"""The file at log_path: made, found again after a restart, appended to in whole lines, reopened.

It is opened by way of its folder's descriptor, and neither it nor a folder between the pod's and it may be a symbolic
link, so that nobody who can write into one folder of logs has a file of the host written or read for him. What lies
there and is no container log is left alone.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

MODE = 0o640
FOLDER_MODE = 0o755
_TAIL = 1 << 16
_CLOCK = b"0123456789-T:.Z+"


class BadPlace(Exception):  # noqa: N818 - a refusal
    """There is no container log to be had at this path; the argument says why, and names the path."""


class LogFile:
    """One container's log. It stays open, also under another name, until `open` is called again."""

    __slots__ = ("_fd", "_link", "folder", "inode", "name")

    def __init__(self, folder: str, name: str, link: str = "") -> None:
        """`folder` is the pod's; `name` the path below it. `link`: a symbolic link to there, with which another shim
        told the kubelet of its log, gives way to the log."""
        self.folder = folder
        self.name = name
        self._link = link
        self._fd = -1
        self.inode = 0

    def __repr__(self) -> str:
        return f"<LogFile {self.path}>"

    @property
    def path(self) -> str:
        """The whole path, for people."""
        return f"{self.folder}/{self.name}"

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def open(self) -> None:
        """Open the file at the path for appending, and make it if there is none.

        Raises BadPlace; nothing was made then, and a file that was open before stays so.
        """
        self._swap(self._open(make=True))

    def find(self, inode: int) -> bool:
        """Open the file with this number: at its path, or beside it under the name that a rotation gave it."""
        try:
            parent, last = self._parent(make=False)
        except BadPlace:
            return False
        try:
            names = [n for n in os.listdir(parent) if n == last or n.startswith(last + ".")]
            for name in sorted(names, key=lambda n: n != last):
                try:
                    if os.stat(name, dir_fd=parent, follow_symlinks=False).st_ino != inode:
                        continue
                    fd = _open_log(name, parent)
                except OSError:
                    continue
                # By now the number may be that of what a rotation has made of another file, such as its compression.
                found = os.fstat(fd)
                if found.st_ino == inode and stat.S_ISREG(found.st_mode) and not os.pread(fd, 10, 0).strip(_CLOCK):
                    self._swap(fd)
                    return True
                os.close(fd)
        finally:
            os.close(parent)
        return False

    def has_successor(self) -> bool:
        """Whether a file lies at the path that is not this one."""
        try:
            parent, last = self._parent(make=False)
        except BadPlace:
            return False
        try:
            found = os.stat(last, dir_fd=parent, follow_symlinks=False)
        except OSError:
            return False
        finally:
            os.close(parent)
        return stat.S_ISREG(found.st_mode) and found.st_ino != self.inode

    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._fd).st_size

    def read(self, start: int, count: int) -> bytes:
        """Bytes of the file."""
        return os.pread(self._fd, count, start)

    def cut(self) -> None:
        """Cut off what a crash left of a line."""
        size = self.size()
        start = size
        while start > 0:
            start = max(0, start - _TAIL)
            end = os.pread(self._fd, min(_TAIL, size - start), start).rfind(b"\n") + 1
            if end or not start:
                if start + end < size:
                    os.ftruncate(self._fd, start + end)
                return

    def tail(self) -> bytes:
        """The file's last whole lines."""
        size = self.size()
        data = os.pread(self._fd, _TAIL, max(0, size - _TAIL))
        return data if size <= _TAIL else data[data.find(b"\n") + 1 :]

    def write(self, data: bytes) -> int:
        """Append whole lines; how many of the bytes are in the file afterwards, which always ends with a whole line.

        Fewer than all: the disk is full. Raises OSError for other reasons, with nothing written.
        """
        done = 0
        try:
            while done < len(data):
                done += os.write(self._fd, data[done:] if done else data)
        except OSError as error:
            size = os.fstat(self._fd).st_size
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            whole = data.rfind(b"\n", 0, done) + 1 if full else 0
            if done > whole:
                os.ftruncate(self._fd, size - (done - whole))
            if not full:
                raise
            return whole
        return done

    # --- opening

    def _swap(self, fd: int) -> None:
        self.close()
        self._fd = fd
        self.inode = os.fstat(fd).st_ino

    def _open(self, *, make: bool) -> int:
        parent, last = self._parent(make=make)
        made = False
        try:
            try:
                if make and self._link:
                    self._take_link(parent, last)
                fd = _open_log(last, parent)
            except FileNotFoundError:
                fd = _open_log(last, parent, os.O_CREAT | os.O_EXCL)
                made = True
        except OSError as error:
            why = "is a symbolic link" if error.errno == errno.ELOOP else os.strerror(error.errno or 0)
            raise BadPlace(f"{self.path}: {why}") from error
        finally:
            os.close(parent)
        try:
            if made:
                os.fchmod(fd, MODE)  # whatever the umask is
            else:
                self._need_log(fd)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _take_link(self, parent: int, last: str) -> None:
        try:
            if os.readlink(last, dir_fd=parent) == self._link:
                os.unlink(last, dir_fd=parent)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT):  # no link, or nothing
                raise

    def _need_log(self, fd: int) -> None:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise BadPlace(f"{self.path}: is not a file")
        data = os.pread(fd, 4096, 0)
        if found.st_ino != self.inode and not _is_log(data):
            raise BadPlace(f"{self.path}: exists already and is not a container log")

    def _parent(self, *, make: bool) -> tuple[int, str]:
        """Descriptor of the folder that holds the file, and the file's name in it. Raises BadPlace."""
        *between, last = self.name.split("/")
        path = self.folder
        try:
            if make:
                os.makedirs(self.folder, FOLDER_MODE, exist_ok=True)
            # The kubelet's own folder, which may be reached by a link (/var/log often is one).
            at = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for part in between:
                path += f"/{part}"
                below = -1
                try:
                    if make:
                        with suppress(FileExistsError):
                            os.mkdir(part, FOLDER_MODE, dir_fd=at)
                    below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=at)
                finally:
                    os.close(at)
                at = below
        except OSError as error:
            raise BadPlace(f"{path}: {os.strerror(error.errno or 0)}") from error
        return at, last


def _open_log(name: str, parent: int, more: int = 0) -> int:
    # Not blocking: what lies there may be a pipe.
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    return os.open(name, flags | more, MODE, dir_fd=parent)


def _is_log(start: bytes) -> bool:
    """Whether a file that begins like this is a container log (or empty)."""
    if not start:
        return True
    fields = start.split(b" ", 3)
    if len(fields) != 4 or fields[1] not in (b"stdout", b"stderr"):
        return False
    return len(fields[0]) < 40 and not fields[0].strip(_CLOCK) and fields[2].split(b":")[0] in (b"F", b"P")
