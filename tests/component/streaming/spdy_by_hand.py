"""A client of SPDY that does just what it is told."""

from __future__ import annotations

import asyncio
import struct
import zlib
from urllib.parse import urlsplit

from crishim.streaming.spdy_headers import DICTIONARY

_HEAD = "Host: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {}\r\n\r\n"


class Client:
    """One connection, behind its upgrade."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._data: dict[int, bytes] = {}
        self._ended: set[int] = set()

    def open(self, stream: int, headers: dict[str, str]) -> None:
        """SYN_STREAM."""
        texts = [text.encode() for pair in headers.items() for text in pair]
        plain = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(text)) + text for text in texts)
        block = self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        self._writer.write(struct.pack(">IIIIH", 0x80030001, 10 + len(block), stream, 0, 0) + block)

    def send(self, stream: int, data: bytes, *, fin: bool = False) -> None:
        """DATA."""
        self._writer.write(struct.pack(">II", stream, fin << 24 | len(data)) + data)

    def ping(self, number: int) -> None:
        """PING; the answer is passed over."""
        self._writer.write(struct.pack(">III", 0x80030006, 4, number))

    async def received(self, stream: int, *, size: int = 0, ended: bool = False) -> bytes:
        """What came on a stream once it is so much, or has ended."""
        async with asyncio.timeout(20):
            while len(self._data.get(stream, b"")) < size or (ended and stream not in self._ended):
                word, length = struct.unpack(">II", await self._reader.readexactly(8))
                body = await self._reader.readexactly(length & 0xFFFFFF)
                if not word >> 31:
                    self._data[word] = self._data.get(word, b"") + body
                    if length >> 24 & 1:
                        self._ended.add(word)
        return self._data.get(stream, b"")

    def close(self) -> None:
        """Go."""
        self._writer.close()


async def dial(url: str, protocol: str = "portforward.k8s.io") -> Client:
    """Connect and upgrade."""
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(f"POST {where.path} HTTP/1.1\r\n{_HEAD.format(protocol)}".encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    return Client(reader, writer)
