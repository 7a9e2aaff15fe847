"""A container's output as Docker's json-file driver keeps it: same encoding, same parts, same rotation."""

from __future__ import annotations

import calendar
import functools
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from crishim.engine.values import LogEntry, LogSpool

PART = 16384
"""Bytes after which the engine cuts a line; all parts of it have the same time."""
_ESCAPED = "<>&\u2028\u2029"
"""What the engine escapes beyond what JSON demands."""


def append(path: Path, limits: LogSpool, data: bytes, stream: str, now: Callable[[], int]) -> None:
    """Append what a process wrote to `stream` (stdout or stderr) at once; a last line without an end stays without.

    `now` gives the time of each line in nanoseconds.
    """
    if path.exists() and path.stat().st_size >= limits.max_size:
        rotate(path, limits.max_files)
    room = limits.max_size - (path.stat().st_size if path.exists() else 0)
    lines: list[bytes] = []
    for line in encode(data, stream, now):
        if room <= 0:
            _add(path, lines)
            rotate(path, limits.max_files)
            lines, room = [], limits.max_size
        lines.append(line)
        room -= len(line)
    _add(path, lines)


def encode(data: bytes, stream: str, now: Callable[[], int]) -> Iterator[bytes]:
    """The driver's lines for some output."""
    for line in _lines(data):
        moment = _rfc3339(now())
        for start in range(0, len(line), PART):
            part = "".join(_decode(line[start : start + PART]))
            text = json.dumps(part, ensure_ascii=False)
            for character in _ESCAPED:
                if character in text:
                    text = text.replace(character, f"\\u{ord(character):04x}")
            yield f'{{"log":{text},"stream":"{stream}","time":"{moment}"}}\n'.encode()


def entries(data: bytes, stream: str, now: Callable[[], int]) -> Iterator[LogEntry]:
    """What a driver other than json-file keeps of some output."""
    for line in _lines(data):
        moment = now()
        for start in range(0, len(line), PART):
            yield LogEntry(moment, "stderr" if stream == "stderr" else "stdout", line[start : start + PART])


def read_files(path: Path) -> list[LogEntry]:
    """What json-files hold, the oldest file first."""
    files = sorted(path.parent.glob(f"{path.name}*"), key=lambda file: -int(file.suffix[1:].replace("log", "0")))
    found = []
    for line in b"".join(file.read_bytes() for file in files).splitlines():
        entry = json.loads(line)
        second, _, fraction = entry["time"].removesuffix("Z").partition(".")
        moment = calendar.timegm(time.strptime(second, "%Y-%m-%dT%H:%M:%S")) * 10**9 + int(fraction.ljust(9, "0"))
        found.append(LogEntry(moment, entry["stream"], entry["log"].encode()))
    return found


def rotate(path: Path, files: int) -> None:
    """Rename what is full, and delete the oldest beyond `files`; with one file only, empty it."""
    if files < 2:
        os.truncate(path, 0)
        return
    path.with_name(f"{path.name}.{files - 1}").unlink(missing_ok=True)
    for number in range(files - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number - 1}") if number > 1 else path
        if older.exists():
            older.rename(path.with_name(f"{path.name}.{number}"))
    path.touch()


def _add(path: Path, lines: list[bytes]) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(b"".join(lines))


def _lines(data: bytes) -> Iterator[bytes]:
    """Lines that end with a line feed; a carriage return is a character like any other."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        yield data[start:end]
        start = end


def _decode(part: bytes) -> Iterator[str]:
    """Text, with U+FFFD for each byte that is not UTF-8."""
    while part:
        try:
            yield part.decode()
            return
        except UnicodeDecodeError as error:
            yield part[: error.start].decode() + "\ufffd"
            part = part[error.start + 1 :]


def _rfc3339(moment: int) -> str:
    """As Go writes it: without trailing zeros."""
    seconds, nanoseconds = divmod(moment, 10**9)
    return _second(seconds) + f".{nanoseconds:09}".rstrip("0").rstrip(".") + "Z"


@functools.lru_cache(16)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
