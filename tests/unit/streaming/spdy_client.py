"""The other side of SPDY, for the tests: frames as a client makes them, and reading a server's."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable

from crishim.streaming.spdy_headers import DICTIONARY


def feed_all(feed: Callable[[bytes], object], pieces: Iterable[bytes]) -> None:
    """Feed pieces one after the other."""
    for piece in pieces:
        feed(piece)


def bytewise(data: bytes) -> list[bytes]:
    """Each byte for itself."""
    return [data[at : at + 1] for at in range(len(data))]


def control(kind: int, body: bytes, flags: int = 0) -> bytes:
    """A control frame."""
    return struct.pack(">II", 0x80030000 | kind, flags << 24 | len(body)) + body


def data(stream: int, payload: bytes, *, fin: bool = False) -> bytes:
    """A DATA frame."""
    return struct.pack(">II", stream, fin << 24 | len(payload)) + payload


def block(headers: dict[str, str]) -> bytes:
    """A header block that is not compressed yet."""
    texts = [text.encode("latin-1") for pair in headers.items() for text in pair]
    return struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(text)) + text for text in texts)


class Client:
    """Compresses headers as one stream, as a client does."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(9, zdict=DICTIONARY)

    def compress(self, plain: bytes) -> bytes:
        return self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def syn(self, stream: int, headers: dict[str, str] | None = None, *, fin: bool = False) -> bytes:
        """SYN_STREAM."""
        body = struct.pack(">IIBB", stream, 0, 0, 0) + self.compress(block(headers or {}))
        return control(1, body, int(fin))


def rst(stream: int, reason: int = 5) -> bytes:
    """RST_STREAM."""
    return control(3, struct.pack(">II", stream, reason))


def frames(stream: bytes) -> list[tuple[str, int, bytes]]:
    """What a server sent: ("data" | "fin" | "reply" | "reset" | "ping" | "goaway", stream or number, payload)."""
    found = []
    while stream:
        word, length = struct.unpack_from(">II", stream)
        flags, size = length >> 24, length & 0xFFFFFF
        body, stream = stream[8 : 8 + size], stream[8 + size :]
        assert len(body) == size
        if not word >> 31:
            if body or not flags & 1:
                found.append(("data", word, body))
            if flags & 1:
                found.append(("fin", word, b""))
        else:
            name = {2: "reply", 3: "reset", 6: "ping", 7: "goaway"}[word & 0xFFFF]
            found.append((name, struct.unpack_from(">I", body)[0], body[4:]))
    return found
