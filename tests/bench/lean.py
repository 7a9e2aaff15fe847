"""A client that costs next to nothing of its own: unary gRPC calls as frames of HTTP/2, written and read by hand.

Of the time that Python's gRPC client takes for a call, a good part is the client's.  This one shows what the server
takes, and so what a quicker client sees.  One connection, one call at a time.  (RFC 9113, RFC 7541, "gRPC over HTTP2".)
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Self

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _END_HEADERS, _ACK = 0x1, 0x4, 0x1
_POST, _HTTP = b"\x83", b"\x86"  # :method POST and :scheme http of HPACK's static table
_PATH, _AUTHORITY, _NEW = b"\x04", b"\x01", b"\x00"  # literals that are not to be remembered


class LeanClient:
    """A connection to a gRPC server on a unix socket.  Closed at the end of its `with` block."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._received = bytearray()
        self._stream = -1
        self._socket.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b""))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, method: str, request: bytes) -> bytes:
        """The response of `method` (``/service/name``), both as bytes.

        Raises RuntimeError where there is none: the call failed (headers are not read, so that why is not known).
        """
        self._stream += 2
        head = _POST + _HTTP + _PATH + _text(method) + _AUTHORITY + _text("localhost")
        for name, value in (("content-type", "application/grpc"), ("te", "trailers")):
            head += _NEW + _text(name) + _text(value)
        body = struct.pack(">BI", 0, len(request)) + request
        self._socket.sendall(
            _frame(_HEADERS, _END_HEADERS, self._stream, head) + _frame(_DATA, _END_STREAM, self._stream, body)
        )
        answer = self._answer()
        if answer:  # what was read may be sent again, on this stream's connection
            self._socket.sendall(_frame(_WINDOW, 0, 0, struct.pack(">I", len(answer))))
        if len(answer) < 5:
            raise RuntimeError(f"{method} has failed")
        return answer[5:]

    def _answer(self) -> bytes:
        data = b""
        while True:
            kind, flags, stream, payload = self._read()
            if kind == _SETTINGS and not flags & _ACK:
                self._socket.sendall(_frame(_SETTINGS, _ACK, 0, b""))
            elif kind == _PING and not flags & _ACK:
                self._socket.sendall(_frame(_PING, _ACK, 0, payload))
            elif kind == _GOAWAY or (kind == _RESET and stream == self._stream):
                raise RuntimeError(f"the server ended the call: frame {kind}, {payload!r}")
            elif stream == self._stream:
                data += payload if kind == _DATA else b""
                if flags & _END_STREAM:
                    return data

    def _read(self) -> tuple[int, int, int, bytes]:
        while (size := self._whole()) is None:
            part = self._socket.recv(1 << 18)
            if not part:
                raise RuntimeError("the server closed the connection")
            self._received += part
        kind, flags, stream = struct.unpack(">BBI", self._received[3:9])
        payload = bytes(self._received[9:size])
        del self._received[:size]
        return kind, flags, stream & 0x7FFFFFFF, payload

    def _whole(self) -> int | None:
        """Bytes of the first frame, if all of it has come."""
        if len(self._received) < 9:
            return None
        size = 9 + int.from_bytes(self._received[:3], "big")
        return size if len(self._received) >= size else None


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def _text(value: str) -> bytes:
    """A string of HPACK, not compressed; shorter than 127 bytes."""
    return bytes([len(value)]) + value.encode()
