"""A client of SPDY sessions that costs next to nothing: blocking, one connection, streams in the order of their ids."""

from __future__ import annotations

import socket
import struct
import zlib
from collections.abc import Iterable, Mapping
from types import TracebackType
from urllib.parse import urlsplit

from crishim.streaming.spdy_headers import DICTIONARY

_HEAD = (
    "POST {} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {}\r\n\r\n"
)
_FIN = 1 << 24


class Session:
    """An upgraded connection; a context manager."""

    def __init__(self, url: str, protocol: str, streams: Iterable[Mapping[str, str]]) -> None:
        """Connect, and open streams with these headers: 1, 3 and so on.  Raises RuntimeError when it is refused."""
        where = urlsplit(url)
        self.connection = socket.create_connection((where.hostname, where.port), timeout=60)
        self.connection.sendall(_HEAD.format(where.path, protocol).encode())
        self._rest = b""
        while b"\r\n\r\n" not in self._rest:
            self._rest += self._receive()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        if b" 101 " not in head:
            raise RuntimeError(f"refused: {head!r}")
        deflate = zlib.compressobj(zdict=DICTIONARY)
        for number, headers in enumerate(streams):
            texts = [text.encode() for pair in headers.items() for text in pair]
            plain = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(text)) + text for text in texts)
            block = deflate.compress(plain) + deflate.flush(zlib.Z_SYNC_FLUSH)
            head = struct.pack(">IIIIH", 0x80030001, 10 + len(block), 2 * number + 1, 0, 0)
            self.connection.sendall(head + block)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    def send(self, stream: int, data: bytes) -> None:
        """DATA, not the last."""
        self.connection.sendall(struct.pack(">II", stream, len(data)) + data)

    def _receive(self) -> bytes:
        if not (piece := self.connection.recv(1 << 18)):
            raise RuntimeError("the server broke off")
        return piece

    def read(self, stream: int, size: int = 0) -> int:
        """Pass data over until a stream has ended, or so many bytes of it came; how many there were."""
        count, buffered = 0, bytearray(self._rest)
        while not size or count < size:
            while len(buffered) < 8:
                buffered += self._receive()
            word, length = struct.unpack_from(">II", buffered)
            del buffered[:8]
            left = length & 0xFFFFFF
            counted = left if word == stream else 0
            while left:
                taken = min(left, len(buffered))
                del buffered[:taken]
                left -= taken
                if left:
                    buffered += self._receive()
            count += counted
            if word == stream and length & _FIN:
                break
        self._rest = bytes(buffered)
        return count
