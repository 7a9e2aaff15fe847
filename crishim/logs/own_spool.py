"""A spool that crishim fills itself, in the engine's form, from a log that only the engine can read.

It is bounded as the engine's own are. What is in it says where to go on after a crash: entries are asked for again from
shortly before its end, and those that it has are passed over.
"""

from __future__ import annotations

import calendar
import functools
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from crishim.engine.values import LogEntry, LogSpool

_FOLDER_MODE, _MODE = 0o700, 0o600
_WINDOW = 1 << 20
"""Bytes at the spool's end among which entries are looked for that come a second time."""
_DISORDER = 1_000_000_000
"""Nanoseconds by which the two streams of a container may be out of order."""


class OwnSpool:
    """The spool of one container. All methods block, and raise OSError."""

    def __init__(self, folder: Path, container_id: str, limits: LogSpool) -> None:
        """`folder`: of all such spools."""
        self.folder = folder / container_id
        self.path = self.folder / f"{container_id}-json.log"
        self._limits = limits
        self._known: Counter[bytes] = Counter()
        """Lines that may come again."""
        self._last = 0
        """Time of the last of them."""

    def __repr__(self) -> str:
        return f"<OwnSpool {self.path}>"

    def open(self) -> int:
        """Make it if there is none; cut off what a crash left of a line. From when on (nanoseconds) entries are to be
        appended, those that it has among them."""
        self.folder.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
        with os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE), "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _WINDOW, 0))
            tail = file.read()
            whole = tail.rfind(b"\n") + 1
            if whole < len(tail):
                file.truncate(size - len(tail) + whole)
        lines = tail[:whole].splitlines(keepends=True)
        if size > _WINDOW:
            del lines[:1]
        else:
            lines = self._older(_WINDOW - size) + lines
        times = [_time_of(line) for line in lines]
        # Not the greatest time: after the clock was set back, what follows is older.
        self._last = times[-1] if times else 0
        since = max(min(times, default=0), self._last - _DISORDER, 0)
        self._known = Counter(line for line, moment in zip(lines, times, strict=True) if moment >= since)
        return since

    def _older(self, count: int) -> list[bytes]:
        """Lines at the end of the file before, within so many bytes."""
        try:
            with self._file(1).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - count, 0))
                lines = file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        return lines[1:] if size > count else lines

    def append(self, entries: Iterable[LogEntry]) -> None:
        """Append entries in order, but those that it has."""
        lines: list[bytes] = []
        for entry in entries:
            line = _encode(entry)
            if self._known:
                if self._known[line] > 0:
                    self._known[line] -= 1
                    continue
                if entry.time > self._last + _DISORDER:
                    self._known.clear()
            lines.append(line)
        if not lines:
            return
        if self.path.stat().st_size >= self._limits.max_size:
            self._rotate()
        with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE), "wb") as file:
            file.write(b"".join(lines))

    def remove(self) -> None:
        """Take it away with its folder; one that is not there is no error."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _rotate(self) -> None:
        self._file(self._limits.max_files - 1).unlink(missing_ok=True)
        for number in range(self._limits.max_files - 1, 0, -1):
            if (older := self._file(number - 1)).exists():
                older.rename(self._file(number))

    def _file(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path


def _encode(entry: LogEntry) -> bytes:
    seconds, rest = divmod(entry.time, 1_000_000_000)
    moment = f"{_second(seconds)}.{rest:09d}Z"
    text = json.dumps(entry.text.decode(errors="replace"), ensure_ascii=False)
    return f'{{"log":{text},"stream":"{entry.stream}","time":"{moment}"}}\n'.encode()


@functools.lru_cache(16)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _time_of(line: bytes) -> int:
    """Nanoseconds of a line as `_encode` makes them."""
    moment = line[-33:-3]  # the 30 characters before `"}` and the line's end
    return _parse_second(moment[:19]) * 1_000_000_000 + int(moment[20:29])


@functools.lru_cache(64)
def _parse_second(text: bytes) -> int:
    return calendar.timegm(time.strptime(text.decode(), "%Y-%m-%dT%H:%M:%S"))
