"""One container's way from spool to log: what was written stands to what was read in a fixed relation, always.

`place` is up to where the spool was taken, and the log file held `written` bytes then. What lies behind in the file is
the beginning of what comes next: a block that was written in part (a full disk) or whose place nobody learned (a
crash). Conversion gives the same bytes again, and those that are there already are passed over.
"""

from __future__ import annotations

from crishim.logs.convert import convert
from crishim.logs.logfile import LogFile
from crishim.logs.spool import Place, Spool, SpoolLost

Progress = tuple[Place, int, int]
"""Place in the spool, and inode and size of the log file when everything before it had been written."""

LAG = "lag_bytes"
"""The one figure beside the counters that rises and falls."""


class Counters:
    """What happened to the logs since the writer began, for the node's status."""

    __slots__ = (
        "damaged_lines",
        "full_disk",
        "late_lines",
        "lost_bytes",
        "lost_times",
        "read_bytes",
        "repeated",
        "written_bytes",
    )

    def __init__(self) -> None:
        self.read_bytes = 0
        """Of the engine's files."""
        self.written_bytes = 0
        """To the containers' logs."""
        self.lost_bytes = 0
        """At least so many, of files that the engine deleted before they were read."""
        self.lost_times = 0
        self.damaged_lines = 0
        """Lines in a spool that are none of the engine's."""
        self.full_disk = 0
        """How often a log could not be written to the end for want of room."""
        self.late_lines = 0
        """Lines that were written after the container's end had been told."""
        self.repeated = 0
        """How often a log file was not what had been written to it, so that lines may be in it twice."""

    def as_dict(self) -> dict[str, int]:
        """By name."""
        return {name: getattr(self, name) for name in self.__slots__}


class Follower:
    """Moves lines from a spool to a log file."""

    __slots__ = (
        "_checked",
        "_counters",
        "_moved",
        "_skip",
        "file",
        "full",
        "id",
        "late",
        "notes",
        "reported",
        "spool",
        "taken",
    )

    def __init__(self, container_id: str, spool: Spool, file: LogFile, counters: Counters) -> None:
        self.id = container_id
        self.spool = spool
        self.file = file
        self.full = False
        """Whether there was no room for more at the last try."""
        self.late = False
        """Whether its container's end was told although there may be more to write."""
        self.taken = 0
        """Bytes of the spool that were written."""
        self.reported = 0
        """As `taken`, when progress was told last."""
        self.notes: list[str] = []
        """What a person should know; taken away by whoever tells it."""
        self._skip = 0
        """Bytes of the next block's lines that are in the file already."""
        self._checked = True
        """Whether it is known that they are just those bytes."""
        self._moved = False
        """Whether the log's path holds the file that is to follow."""
        self._counters = counters

    def __repr__(self) -> str:
        return f"<Follower {self.id[:13]} {self.spool.place} {self.file!r}>"

    @property
    def progress(self) -> Progress:
        """As of now, for `resume`."""
        return self.spool.place, self.file.inode, self.file.size() - self._skip

    def begin(self) -> None:
        """Open the log of a container that has not run yet. Raises BadPlace."""
        self.file.open()
        self.file.cut()

    def resume(self, progress: Progress) -> None:
        """Go on where a writer ended. Raises BadPlace."""
        _, inode, size = progress
        if self.file.find(inode):
            self.file.cut()
            self._skip = max(self.file.size() - size, 0)
            self._checked = not self._skip
            # It was rotated and reopened, and nobody lived to note it.
            self._moved = self.file.has_successor()
            if self._moved and self._checked:
                self._move()
        else:
            self.begin()

    def find_place(self) -> None:
        """Go on behind the last line that the log holds, with nothing known of how it got there. Raises BadPlace."""
        self.begin()
        self._look_for(self.file.tail())

    def _look_for(self, tail: bytes) -> bool:
        """Go on behind what the log ends with; whether the spool still has just that."""
        found = search(self.spool.path, tail) if tail else None
        if found is None:
            return False
        place, self._skip, exact = found
        self._checked = True
        self.spool.close()
        self.spool = Spool(self.spool.path, place)
        return exact

    def pump(self) -> bool:
        """Move one block; whether there may be more. Raises OSError for a log or spool that cannot be used."""
        block = self._next()
        if not block:
            return False
        lines, damaged = convert(block)
        if not self._checked:
            self._check(lines)
        if self._moved and self._checked:
            self._move()
            if not self._checked:
                self._check(lines)
        written = self._write(lines)
        if written < len(lines):
            self._skip = written
            if not self.full:
                self.full = True
                self._counters.full_disk += 1
                self.notes.append(f"no room to write {self.file.path}: the engine keeps what is missing, for a while")
            return False
        if self.full:
            self.full = False
            self.notes.append(f"there is room again to write {self.file.path}")
        if damaged:
            self._counters.damaged_lines += damaged
            self.notes.append(f"{damaged} lines in {self.spool.path} are damaged and left out")
        self._skip = max(self._skip - len(lines), 0)
        self.spool.advance()
        self.taken += len(block)
        self._counters.read_bytes += len(block)
        return True

    def _write(self, lines: bytes) -> int:
        """Append what the file does not hold yet; how many of these bytes are in it."""
        if self._skip >= len(lines):
            return len(lines)
        rest = lines[self._skip :] if self._skip else lines
        written = self.file.write(rest)
        self._counters.written_bytes += written
        if self.late:
            self._counters.late_lines += rest.count(b"\n", 0, written)
        return self._skip + written

    def reopen(self) -> None:
        """Write to a new file at the log's path from the next line on. Raises BadPlace, and goes on as before."""
        while not self._checked and self.pump():
            pass
        self._moved = False
        self.file.open()

    def give_up(self) -> None:
        """The container is gone: note what will not be written any more."""
        if missing := self.spool.unread_of_deleted():
            self._counters.lost_times += 1
            self._counters.lost_bytes += missing
            self.notes.append(
                f"the end of {self.file.path} is missing: the container was removed before at least {missing} bytes of "
                f"{self.spool.path} were written"
            )

    def close(self) -> None:
        """Let go of everything."""
        self.spool.close()
        self.file.close()

    def _next(self) -> bytes:
        while True:
            try:
                return self.spool.read()
            except SpoolLost as gap:
                if self._checked:
                    self._skip = 0
                elif self._overtook():
                    continue
                self._counters.lost_times += 1
                self._counters.lost_bytes += gap.args[0]
                self.notes.append(
                    f"lines are missing in {self.file.path}: the engine deleted at least {gap.args[0]} bytes of "
                    f"{self.spool.path} before they were read"
                )

    def _overtook(self) -> bool:
        """The noted place is gone from the spool, but more was written since; whether nothing is missing for it."""
        tail = self.file.tail()
        self._skip, self._checked = 0, True
        if self._moved:
            self._move()
            tail = self.file.tail() or tail
            self._skip, self._checked = 0, True
        return self._look_for(tail)

    def _check(self, lines: bytes) -> None:
        """Whether what the file holds behind the noted size is what would be written now."""
        start = self.file.size() - self._skip
        # What lies before the file's beginning is in the one before it.
        known = lines[max(-start, 0) : self._skip]
        if self.file.read(max(start, 0), len(known)) != known:
            self._skip, self._checked = max(-start, 0), True
            self._counters.repeated += 1
            self.notes.append(f"{self.file.path} was changed by somebody else: lines may be in it twice")
        elif self._skip <= len(lines):
            self._checked = True

    def _move(self) -> None:
        """Go on in the file at the log's path, which may hold some of what comes next already."""
        self._moved = False
        self.begin()
        size = self.file.size()
        self._skip += size
        self._checked = not size


def search(path: str, tail: bytes) -> tuple[Place, int, bool] | None:
    """Where in a spool a log with this end goes on: a block's place, and how many bytes of its lines the log holds.

    True with it: the spool has the log's last line; of equal ones the first counts that has most of `tail` before it.
    False: it has not, and what is older than that line is passed over. None: all that the spool has is younger.
    """
    last = tail[tail.rfind(b"\n", 0, -1) + 1 :]
    time = last.split(b" ", 1)[0]
    moment = _moment(time)
    best: tuple[int, Place, int] | None = None
    older: tuple[Place, int] | None = None
    spool = Spool(path)
    try:
        while True:
            try:
                block = spool.read()
            except SpoolLost:
                continue
            if not block:
                break
            place = spool.place
            if time in block:
                lines, _ = convert(block)
                end = lines.find(last) + len(last)
                while end >= len(last):
                    same = _common_end(lines[:end], tail)
                    if best is None or same > best[0]:
                        best = same, place, end
                    end = lines.find(last, end - len(last) + 1) + len(last)
            if best is None and (end := _older(block, moment)):
                older = place, end
            spool.advance()
    finally:
        spool.close()
    if best:
        return best[1], best[2], True
    return (*older, False) if older else None


def _common_end(one: bytes, two: bytes) -> int:
    """How many bytes two texts have in common at their ends."""
    least, most = 0, min(len(one), len(two))
    while least < most:
        half = (least + most + 1) // 2
        if one.endswith(two[len(two) - half :]):
            least = half
        else:
            most = half - 1
    return least


def _older(block: bytes, moment: tuple[bytes, bytes]) -> int:
    """How many bytes of a block's lines are not younger than this moment."""
    lines, _ = convert(block)
    end = 0
    for line in lines.splitlines(keepends=True):
        if _moment(line.split(b" ", 1)[0]) > moment:
            break
        end += len(line)
    return end


def _moment(time: bytes) -> tuple[bytes, bytes]:
    """A time in the engine's form so that it can be compared: it leaves trailing zeros out."""
    return time[:19], time[20:].rstrip(b"Z").ljust(9, b"0")
