"""The engine's json-file of one container, read as one stream through all its rotations.

The engine writes `X-json.log`, renames it to `X-json.log.1` when it is full, that to `.2` and so on, and deletes the
last. A renamed file is never written again. With one file only (another shim's container) it empties that instead.

A place in the stream is (inode, offset, mark). The mark is a checksum of the file's first line: a file system gives the
number of a deleted file to the next new one, and those two must not be taken for each other.
"""

from __future__ import annotations

import os
import zlib

BLOCK = 1 << 17
"""Bytes read at once."""
LINE = 1 << 20
"""Most bytes of a line: 16 KiB of text are at most 96 KiB in the engine's encoding."""

Place = tuple[int, int, int]


class SpoolLost(Exception):  # noqa: N818 - what happened, not an error: reading goes on behind it
    """Lines are gone unread, because the engine deleted or emptied a file. The argument: how many bytes at least."""


class Spool:
    """Reads whole lines. `read` gives what lies at the place, `advance` moves it on."""

    __slots__ = ("_ahead", "_fd", "_inode", "_mark", "_next", "_offset", "_size", "path")

    def __init__(self, path: str, place: Place | None = None) -> None:
        self.path = path
        self._fd = -1
        self._inode, self._offset, self._mark = place or (0, 0, 0)
        """No inode: the stream's beginning, wherever that is when it is first read."""
        self._next = 0
        self._size = BLOCK
        self._ahead: tuple[int, ...] = ()
        """Inodes of the files that are to follow this one, as far as they were seen."""

    def __repr__(self) -> str:
        return f"<Spool {self.path} {self.place}>"

    @property
    def place(self) -> Place:
        """Up to where lines were taken."""
        return self._inode, self._offset, self._mark

    def close(self) -> None:
        """Let go of the descriptor; the next read opens the file again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def is_open(self) -> bool:
        """Whether it holds a descriptor."""
        return self._fd >= 0

    def read(self) -> bytes:
        """Whole lines from the place on, none when all was read. Does not move.

        Raises SpoolLost once for each gap, and OSError for what cannot be read.
        """
        while True:
            if self._fd < 0 and not self._open():
                return b""
            data = self._lines()
            if data:
                return data
            if not self._follow():
                return b""

    def advance(self) -> None:
        """Take what `read` gave last."""
        self._offset += self._next
        self._next = 0

    def behind(self) -> int:
        """Bytes from the place to the end of the newest file, as far as they are still there. Raises OSError."""
        files = self._list()
        inodes = [inode for _, inode, _ in files]
        if self._inode not in inodes:
            return sum(size for *_, size in files)
        first = inodes.index(self._inode)
        return max(sum(size for *_, size in files[first:]) - self._offset, 0)

    def unread_of_deleted(self) -> int:
        """Bytes, at least, that were not taken and never will be, as the engine has deleted all files."""
        if self._fd < 0 or self._list():
            return 0
        return max(os.fstat(self._fd).st_size - self._offset, 0)

    # --- one file

    def _lines(self) -> bytes:
        while True:
            data = os.pread(self._fd, self._size, self._offset)
            end = data.rfind(b"\n") + 1
            if end:
                self._size = BLOCK
                if not self._offset:
                    self._mark = _mark(data)
                self._next = end
                return data if end == len(data) else data[:end]
            if len(data) < self._size or self._size >= LINE:
                break
            self._size *= 2
        if len(data) >= LINE:
            self._offset += len(data)  # no line of an engine's
            raise SpoolLost(len(data))
        if os.fstat(self._fd).st_size < self._offset:
            self._offset = self._mark = 0
            raise SpoolLost(0)
        return b""

    def _open(self) -> bool:
        """Open the file in which the place lies; whether there is any."""
        chain = self._chain()
        if not chain:
            return False
        if not self._inode:
            return self._take(chain[0][0])
        for path, inode, _ in chain:
            if inode == self._inode and self._take(path):
                if self._fits():
                    return True
                self.close()
                break
        least = max((size for _, _, size in chain[:-1]), default=0) - self._offset
        self._inode = self._offset = self._mark = 0
        raise SpoolLost(max(least, 0))

    def _take(self, path: str) -> bool:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        inode = os.fstat(fd).st_ino
        if self._inode and inode != self._inode:
            os.close(fd)
            return False
        self._fd, self._inode = fd, inode
        return True

    def _fits(self) -> bool:
        """Whether it is the very file, and not another one of the same number."""
        if not self._offset:
            return True
        return _mark(os.pread(self._fd, LINE, 0)) == self._mark and os.fstat(self._fd).st_size >= self._offset

    # --- the chain of files

    def look(self) -> None:
        """Files were renamed: note which ones follow this, so that it can be told if one of them is lost."""
        inodes = [inode for _, inode, _ in self._chain()]
        if self._inode in inodes:
            self._ahead = tuple(inodes[inodes.index(self._inode) + 1 :])

    def _chain(self) -> list[tuple[str, int, int]]:
        """(path, inode, size) of the files, the oldest first; none while there is none."""
        last = None
        for _ in range(20):  # until none was renamed while we looked
            chain = self._list()
            inodes = [inode for _, inode, _ in chain]
            if inodes == last and len(set(inodes)) == len(inodes):
                break
            last = inodes
        return chain

    def _list(self) -> list[tuple[str, int, int]]:
        folder, name = os.path.split(self.path)
        found: dict[int, tuple[str, int, int]] = {}
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return []
        for entry in names:
            number = entry[len(name) + 1 :]
            if entry == name or (entry.startswith(name + ".") and number.isdecimal()):
                path = os.path.join(folder, entry)
                try:
                    stat = os.stat(path, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                found[int(number or 0)] = (path, stat.st_ino, stat.st_size)
        return [found[number] for number in sorted(found, reverse=True)]

    def _follow(self) -> bool:
        """At the end of the file: go to the next one. Whether there is more to read."""
        try:
            if os.stat(self.path).st_ino == self._inode:
                return False
        except FileNotFoundError:
            return False  # between two renames, or all is being removed
        # It was renamed, after which nothing is added: what was added before that is still to be read.
        if os.fstat(self._fd).st_size > self._offset and self._more():
            return True
        return self._next_of([inode for _, inode, _ in self._chain()])

    def _more(self) -> bool:
        size = max(self._size, min(LINE, os.fstat(self._fd).st_size - self._offset))
        return b"\n" in os.pread(self._fd, size, self._offset)

    def _next_of(self, inodes: list[int]) -> bool:
        if self._inode in inodes:
            ahead = inodes[inodes.index(self._inode) + 1 :]
            lost = False
        else:
            # Ours was deleted meanwhile, and so were those after it that the chain does not begin with. By their order:
            # the number of a deleted file may be that of a newer one by now.
            gone = 0
            while self._ahead[gone:] != tuple(inodes[: len(self._ahead) - gone]):
                gone += 1
            ahead, lost = inodes, gone > 0
        if not ahead:
            return False
        size = os.fstat(self._fd).st_size
        self.close()
        self._inode, self._offset, self._mark = ahead[0], 0, 0
        self._ahead = tuple(ahead[1:])
        if lost:
            raise SpoolLost(size)
        return True


def _mark(data: bytes) -> int:
    """Checksum of the first line."""
    return zlib.crc32(memoryview(data)[: data.find(b"\n") + 1])
