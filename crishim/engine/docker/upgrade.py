"""The engine's answer to a request that turns a connection into a stream: bytes in, the stream's first bytes out.

No I/O. A refusal is an ordinary answer, whose JSON text is read to its end.
"""

from __future__ import annotations

import json

_END = b"\r\n\r\n"
_LIMIT = 64 << 10
"""Bytes of a head, or of a refusal, above which what answers is no engine."""


def upgrade_request(path: str, body: bytes) -> bytes:
    """The request that asks for a stream at `path`."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: engine\r\nUser-Agent: crishim\r\nContent-Type: application/json\r\n"
        f"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode("ascii") + body


class UpgradeAnswer:
    """One answer, fed as it comes."""

    def __init__(self) -> None:
        self.status = 0
        """0 until the head is whole."""
        self._data = b""
        self._headers: dict[str, str] = {}

    @property
    def upgraded(self) -> bool:
        """Whether the connection is a stream now. (An engine that overlooks the upgrade answers 200, and streams.)"""
        return self.status in (101, 200)

    def feed(self, data: bytes) -> bytes | None:
        """None: more is needed. Else the answer is whole, and these are the stream's first bytes.

        Raises ValueError for what is no such answer.
        """
        self._data += data
        if len(self._data) > _LIMIT and not self.upgraded:
            raise ValueError("the engine's answer has no end")
        if not self.status:
            head, found, rest = self._data.partition(_END)
            if not found:
                return None
            self._read_head(head)
            self._data = rest
        if self.upgraded:
            return self._data
        if "content-length" in self._headers:
            return b"" if len(self._data) >= int(self._headers["content-length"]) else None
        return b"" if self._chunked and self._data.endswith(b"0\r\n\r\n") else None

    def end(self) -> bool:
        """The connection has ended; whether that was the end of a refusal. Some of the engine's have no other."""
        return bool(self.status) and not self.upgraded and not self._chunked and "content-length" not in self._headers

    @property
    def _chunked(self) -> bool:
        return "chunked" in self._headers.get("transfer-encoding", "")

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status[:3].isdigit():
            raise ValueError(f"no HTTP answer: {first[:100]!r}")
        for line in lines:
            name, _, value = line.partition(":")
            self._headers[name.strip().lower()] = value.strip().lower()
        self.status = int(status[:3])

    @property
    def message(self) -> str:
        """The words of a refusal, as far as they have come."""
        body = self._data
        if self._chunked:
            body = _dechunk(body)
        try:
            return str(json.loads(body)["message"])
        except (ValueError, KeyError, TypeError):
            return body.decode(errors="replace")


def _dechunk(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size.partition(b";")[0] or b"0", 16)
        whole, body = whole + body[:length], body[length + 2 :]
    return whole
