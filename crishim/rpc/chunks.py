"""Lists as streams: the same items, once each, in messages of a bounded size.

The items are taken together, before the first message goes out: a reader that is slow sees one moment, and holds
nothing but the bytes that it has not read yet.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Protocol

from crishim.rpc.framing import field


class Stream(Protocol):
    """The encoded messages of a stream, to be closed whatever became of it. An async generator is one."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    async def __anext__(self) -> bytes: ...
    async def aclose(self) -> None: ...


CHUNK = 256 << 10
"""Bytes of a message, unless a single item is larger."""
ITEMS = 1
"""Field of the items in the responses of all streamed lists."""


async def stream_items(items: Iterable[bytes]) -> AsyncGenerator[bytes]:
    """Framed items (`frame_all`) as messages. No item, no message."""
    for chunk in chunks(items):
        yield chunk


def chunks(items: Iterable[bytes], size: int = CHUNK) -> Iterable[bytes]:
    """Join items up to `size` bytes."""
    joined: list[bytes] = []
    length = 0
    for item in items:
        if joined and length + len(item) > size:
            yield b"".join(joined)
            joined, length = [], 0
        joined.append(item)
        length += len(item)
    if joined:
        yield b"".join(joined)


def frame_all(messages: Iterable[bytes]) -> list[bytes]:
    """Encoded items as parts of a response."""
    return [field(ITEMS, message) for message in messages]
