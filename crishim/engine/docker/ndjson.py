"""JSON objects as they arrive, one a line. Lines may be longer than the HTTP client's own line reader allows."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp

from crishim.engine.docker.errors import broken_off
from crishim.errors import EngineError, Kind

LINE_LIMIT = 8 << 20
"""Bytes of one line; an event carries all labels of a container, whose annotations may be 256 KiB."""


async def json_lines(response: aiohttp.ClientResponse, what: str) -> AsyncGenerator[dict[str, Any], None]:
    """The objects of a stream until the engine ends it in order.

    Raises EngineUnavailable when it breaks off, EngineError when it is not lines of JSON objects.
    """
    rest = bytearray()
    try:
        async for chunk in response.content.iter_any():
            rest += chunk
            if b"\n" not in chunk:
                if len(rest) > LINE_LIMIT:
                    raise EngineError(f"{what}: a line of more than {LINE_LIMIT} bytes", kind=Kind.INTERNAL)
                continue
            *lines, tail = bytes(rest).split(b"\n")
            rest = bytearray(tail)
            for line in lines:
                if line.strip():
                    yield _object(line, what)
    except (aiohttp.ClientError, OSError) as error:
        raise broken_off(what, error) from error
    if rest.strip():
        yield _object(bytes(rest), what)


def _object(line: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise EngineError(f"{what}: not JSON: {line[:200]!r}", kind=Kind.INTERNAL) from error
    if not isinstance(value, dict):
        raise EngineError(f"{what}: not a JSON object: {line[:200]!r}", kind=Kind.INTERNAL)
    return value
