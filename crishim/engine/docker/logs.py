"""A container's log as the engine's API tells it: bytes in, entries out.

Every entry is `TIME TEXT`. Without a terminal each lies in a frame of its own; with one there are no frames, and
entries are told apart by their ends and by the engine's own limit for a part of a line. Parts of one line have one
time. Of a line in parts the log driver `local` (20.10) forgets the end: it is put back.
"""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncIterator, Sequence
from struct import Struct
from typing import Literal

import aiohttp

from crishim.engine.docker.errors import broken_off
from crishim.engine.docker.parse import nanoseconds
from crishim.engine.values import LogEntry
from crishim.errors import EngineError, EngineUnavailable, Kind

PART = 16384
"""Bytes after which the engine cuts a line."""
_FRAME_LIMIT = 8 << 20
_HEAD = Struct(">BxxxI")
_STREAMS: dict[int, Literal["stdout", "stderr"]] = {1: "stdout", 2: "stderr"}
_FAILED = 3
"""The engine's own word: it cannot read on."""
_TIME = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
_LONGEST_TIME = 36


class _Parts:
    """Lines of which a part came and not the end: stream to the line's time."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}

    def goes_on(self, stream: str, time: int) -> bool:
        """Whether an entry of this time is of a line that has begun."""
        return self._open.get(stream) == time

    def entry(self, time: int, stream: Literal["stdout", "stderr"], text: bytes) -> LogEntry:
        """The entry, with its end where it must have one."""
        ends = text.endswith(b"\n")
        if not ends and len(text) < PART and self.goes_on(stream, time):
            text, ends = text + b"\n", True
        if ends or len(text) < PART:
            self._open.pop(stream, None)
        else:
            self._open[stream] = time
        return LogEntry(time, stream, text)


class LogFrames:
    """The log of a container without a terminal."""

    def __init__(self) -> None:
        self._rest = b""
        self._parts = _Parts()

    def feed(self, data: bytes) -> list[LogEntry]:
        """Entries that are whole now. Raises EngineError with the engine's words, and for what is no log."""
        if self._rest:
            data = self._rest + data
        at, found = 0, []
        while len(data) - at >= _HEAD.size:
            number, size = _HEAD.unpack_from(data, at)
            if size > _FRAME_LIMIT or (number not in _STREAMS and number != _FAILED):
                raise _not_understood(data[at : at + 40])
            if len(data) - at - _HEAD.size < size:
                break
            payload = data[at + _HEAD.size : at + _HEAD.size + size]
            at += _HEAD.size + size
            if number == _FAILED:
                raise _told_by_engine(payload)
            time = _TIME.match(payload)
            if time is None:
                raise _not_understood(payload[:80])
            found.append(self._parts.entry(_moment(time), _STREAMS[number], payload[time.end() :]))
        self._rest = data[at:]
        return found

    def end(self) -> list[LogEntry]:
        """What is left at the stream's end. Raises EngineUnavailable: it broke off."""
        if self._rest:
            raise EngineUnavailable("log of a container: the engine broke off")
        return []


class LogText:
    """The log of a container with a terminal, which has one stream."""

    def __init__(self) -> None:
        self._rest = b""
        self._parts = _Parts()

    def feed(self, data: bytes) -> list[LogEntry]:
        """See LogFrames."""
        self._rest += data
        return self._take(ended=False)

    def end(self) -> list[LogEntry]:
        """See LogFrames."""
        return self._take(ended=True)

    def _take(self, *, ended: bool) -> list[LogEntry]:
        data, at, found = self._rest, 0, []
        while at < len(data):
            time = _TIME.match(data, at)
            if time is None:
                if not ended and b"\n" not in data[at:] and len(data) - at < _LONGEST_TIME:
                    break
                raise _told_by_engine(data[at : at + 400].partition(b"\n")[0])
            end = _end_of_text(data, time.end(), ended=ended)
            if end is None:
                break
            moment = _moment(time)
            next_one = _TIME.search(data, time.end(), end) if self._parts.goes_on("stdout", moment) else None
            if next_one is not None and _moment(next_one) >= moment:
                end = next_one.start()
            found.append(self._parts.entry(moment, "stdout", data[time.end() : end]))
            at = end
        self._rest = data[at:]
        return found


def _end_of_text(data: bytes, start: int, *, ended: bool) -> int | None:
    """Where an entry's text ends that begins here; None: that depends on what is still to come."""
    line = data.find(b"\n", start, start + PART + 1) + 1
    if line:
        return line
    if len(data) - start < PART + _LONGEST_TIME and not ended:
        return None
    # A part is followed by the next one's time at once.
    if len(data) - start > PART and _TIME.match(data, start + PART):
        return start + PART
    line = data.find(b"\n", start) + 1
    return line or (len(data) if ended or len(data) - start > _FRAME_LIMIT else None)


class LogStream(AsyncIterator[Sequence[LogEntry]]):
    """Entries of an answer as they come, some at a time.

    Raises EngineUnavailable when it breaks off, EngineError when the engine cannot read on. An iterator without a state
    of its own to close: leaving the answer's context wakes whoever reads it.
    """

    def __init__(self, response: aiohttp.ClientResponse, *, tty: bool) -> None:
        self._content = response.content
        self._parser = LogText() if tty else LogFrames()
        self._ended = False

    async def __anext__(self) -> Sequence[LogEntry]:
        while not self._ended:
            try:
                data = await self._content.readany()
            except (aiohttp.ClientError, OSError) as error:
                raise broken_off("log of a container", error) from error
            self._ended = not data
            if entries := self._parser.feed(data) if data else self._parser.end():
                return entries
        raise StopAsyncIteration


def query(since: int) -> dict[str, str]:
    """Parameters for all that was printed from then on (nanoseconds), and what will be."""
    wanted = {"stdout": "1", "stderr": "1", "timestamps": "1", "follow": "1"}
    if since:
        seconds, rest = divmod(since, 1_000_000_000)
        wanted["since"] = f"{seconds}.{rest:09d}"
    return wanted


def _moment(time: re.Match[bytes]) -> int:
    second, fraction, zone = time.groups()
    return _second(second + zone) + int((fraction or b"").ljust(9, b"0"))


@functools.lru_cache(64)
def _second(text: bytes) -> int:
    return nanoseconds(text.decode())


def _told_by_engine(words: bytes) -> EngineError:
    return EngineError(f"the engine cannot read the log: {words.decode(errors='replace').strip()}", kind=Kind.INTERNAL)


def _not_understood(data: bytes) -> EngineError:
    return EngineError(f"log of a container: the engine's answer is not understood: {data!r}", kind=Kind.INTERNAL)
