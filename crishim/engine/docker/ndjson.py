"""JSON objects as they arrive, one a line. Lines may be longer than the HTTP client's own line reader allows."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, TypeVar

import aiohttp

from crishim.engine.docker.errors import broken_off
from crishim.errors import EngineError, EngineUnavailable, Kind

LINE_LIMIT = 8 << 20
"""Bytes of one line; an event carries all labels of a container, whose annotations may be 256 KiB."""

_TOO_LONG = b"too long"
"""This very object stands in the queue for a line that was dropped."""

T = TypeVar("T")


class JsonLines(AsyncIterator[T], Generic[T]):
    """What `read` makes of each object of a stream; None is passed over, and what it raises is raised here.

    Raises EngineUnavailable when the stream breaks off, or, for an `endless` one, when the engine ends it;
    EngineError when it is not lines of JSON objects, or one is longer than LINE_LIMIT; with `too_long` that stands in
    its place, and its bytes are read and dropped. `what` names the call in messages.

    An iterator without a state of its own to close: leaving the stream's context wakes whoever reads it.
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        what: str,
        read: Callable[[dict[str, Any]], T | None],
        *,
        endless: bool = False,
        too_long: T | None = None,
    ) -> None:
        self._content = response.content
        self._what = what
        self._read = read
        self._endless = endless
        self._too_long = too_long
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._dropping = False
        """Whether what comes up to the next end of a line belongs to one that is too long."""

    async def __anext__(self) -> T:
        while True:
            while self._lines:
                line = self._lines.popleft()
                value = self._too_long if line is _TOO_LONG else self._read(self._object(line))
                if value is not None:
                    return value
            if not await self._fill():
                if self._endless:
                    raise EngineUnavailable(f"{self._what}: the engine ended the stream")
                raise StopAsyncIteration

    async def _fill(self) -> bool:
        """Read on; False at the stream's end."""
        try:
            chunk = await self._content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise broken_off(self._what, error) from error
        ended = not chunk
        if self._dropping:
            _, mark, chunk = chunk.partition(b"\n")
            self._dropping = not mark
        *lines, self._rest = (self._rest + chunk).split(b"\n") if b"\n" in chunk else (self._rest + chunk,)
        if ended:  # the end, where a last line may lack its mark
            lines, self._rest = [self._rest], b""
        if len(self._rest) > LINE_LIMIT:
            if self._too_long is None:
                raise EngineError(f"{self._what}: a line of more than {LINE_LIMIT} bytes", kind=Kind.INTERNAL)
            lines.append(_TOO_LONG)
            self._rest, self._dropping = b"", True
        self._lines.extend(line for line in lines if line.strip())
        return bool(not ended or self._lines)

    def _object(self, line: bytes) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except ValueError as error:
            raise EngineError(f"{self._what}: not JSON: {line[:200]!r}", kind=Kind.INTERNAL) from error
        if not isinstance(value, dict):
            raise EngineError(f"{self._what}: not a JSON object: {line[:200]!r}", kind=Kind.INTERNAL)
        return value
