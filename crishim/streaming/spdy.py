"""SPDY/3.1 as a server speaks it to the clients of Kubernetes: bytes in, events out, bytes to send. No I/O.

Frames are those of draft-mbelshe-httpbis-spdy 3.1, section 2. Payloads of DATA are passed on as they come, in pieces.
There is no flow control: these clients know none, and whoever feeds this stops reading from the connection instead.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crishim.streaming.errors import ProtocolViolation
from crishim.streaming.spdy_headers import FIRST_EMPTY, NEXT_EMPTY, HeaderReader

CONTROL_LIMIT = 16 << 10
"""Bytes that a control frame may have."""
_HEADER = 8
_CONTROL = 0x80000000
_VERSION = 0x80030000
_FIN = 1
_LAST_ID = 0x7FFFFFFF

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
INVALID_STREAM, REFUSED_STREAM, CANCEL = 2, 3, 5
"""Reasons of RST_STREAM."""
_GOAWAY_OK, _GOAWAY_PROTOCOL_ERROR = 0, 1


class Opened(NamedTuple):
    """The client opened a stream; with `fin` it will send nothing on it. `Spdy.accept` or `Spdy.reset` answers."""

    stream: int
    headers: dict[str, str]
    fin: bool


class Received(NamedTuple):
    """Bytes of a stream; with `fin` they are its last (and may be none)."""

    stream: int
    data: memoryview
    fin: bool


class Cancelled(NamedTuple):
    """The client has done with a stream, in both directions."""

    stream: int


SpdyEvent = Opened | Received | Cancelled


class Spdy:
    """One connection."""

    def __init__(self, *, most_streams: int, small_headers: bool) -> None:
        """`most_streams`: more that are open at once are refused. `small_headers`: see `HeaderReader`."""
        self._most_streams = most_streams
        self._headers = HeaderReader(small=small_headers)
        self._replies = bytearray()
        self._replied = False
        self._last = 0
        self._open: dict[int, list[bool]] = {}
        """Streams that are open: whether the client, and whether we, may still send on it."""
        self._partial = bytearray()
        self._data_stream = 0
        self._data_left = 0
        self._data_fin = False

    def take(self) -> bytes:
        """What is to be sent on the protocol's own account, in the order of the events."""
        replies = bytes(self._replies)
        self._replies.clear()
        return replies

    def feed(self, data: bytes | memoryview) -> list[SpdyEvent]:
        """Take bytes of the connection. Raises ProtocolViolation, after which nothing can be fed any more."""
        events: list[SpdyEvent] = []
        view = memoryview(data)
        at, end = 0, len(view)
        while at < end:
            if self._data_left:
                piece = min(self._data_left, end - at)
                self._data_left -= piece
                self._piece(events, view[at : at + piece], self._data_fin and not self._data_left)
                at += piece
                continue
            if not self._partial and end - at >= _HEADER:
                word, length = struct.unpack_from(">II", view, at)
                whole = _HEADER + (length & 0xFFFFFF)
                if not word & _CONTROL:
                    self._begin_data(events, word, length)
                    at += _HEADER
                    continue
                self._check_length(whole)
                if end - at >= whole:
                    self._control(events, word, length, bytes(view[at + _HEADER : at + whole]))
                    at += whole
                    continue
            at += self._collect(events, view[at:end])
        return events

    def _collect(self, events: list[SpdyEvent], view: memoryview) -> int:
        """Add to a frame that came in parts as much as belongs to it; how much that was."""
        partial = self._partial
        wanted = _HEADER
        if len(partial) >= _HEADER:
            wanted += int.from_bytes(partial[5:8], "big")
        taken = min(wanted - len(partial), len(view))
        partial += view[:taken]
        if len(partial) < _HEADER:
            return taken
        word, length = struct.unpack_from(">II", partial)
        if not word & _CONTROL:
            partial.clear()
            self._begin_data(events, word, length)
            return taken
        whole = _HEADER + (length & 0xFFFFFF)
        self._check_length(whole)
        if len(partial) == whole:
            body = bytes(partial[_HEADER:])
            partial.clear()
            self._control(events, word, length, body)
        return taken

    @staticmethod
    def _check_length(whole: int) -> None:
        if whole > CONTROL_LIMIT:
            raise ProtocolViolation(f"control frame has more than {CONTROL_LIMIT} bytes")

    def _begin_data(self, events: list[SpdyEvent], stream: int, length: int) -> None:
        if not stream:
            raise ProtocolViolation("data for stream 0")
        self._data_stream = stream
        self._data_left = length & 0xFFFFFF
        self._data_fin = bool(length >> 24 & _FIN)
        state = self._open.get(stream)
        if state is None or not state[0]:
            # As a reset crosses data on the way, or the client made a mistake: told, and the payload is passed over.
            self._data_fin = False
            if state is None and stream > self._last:
                self._reset(stream, INVALID_STREAM)
        elif not self._data_left and self._data_fin:
            self._piece(events, memoryview(b""), fin=True)

    def _piece(self, events: list[SpdyEvent], data: memoryview, fin: bool) -> None:
        stream = self._data_stream
        state = self._open.get(stream)
        if state is None or not state[0]:
            return
        events.append(Received(stream, data, fin))
        if fin:
            self._half_close(stream, state, 0)

    def _half_close(self, stream: int, state: list[bool], side: int) -> None:
        state[side] = False
        if not state[0] and not state[1]:
            del self._open[stream]

    def _control(self, events: list[SpdyEvent], word: int, length: int, body: bytes) -> None:
        if word >> 16 != _VERSION >> 16:
            raise ProtocolViolation(f"frame of SPDY version {word >> 16 & 0x7FFF}")
        kind, flags = word & 0xFFFF, length >> 24
        if kind == SYN_STREAM:
            self._syn_stream(events, flags, body)
        elif kind == PING:
            if len(body) != 4:
                raise ProtocolViolation("PING has a wrong length")
            if body[3] & 1:  # ours would be even; we send none
                self._replies += struct.pack(">II", _VERSION | PING, 4) + body
        elif kind == RST_STREAM:
            if len(body) != 8:
                raise ProtocolViolation("RST_STREAM has a wrong length")
            (stream,) = struct.unpack_from(">I", body)
            if self._open.pop(stream & _LAST_ID, None) is not None:
                events.append(Cancelled(stream & _LAST_ID))
        elif kind == HEADERS:
            if len(body) < 4:
                raise ProtocolViolation("HEADERS has a wrong length")
            self._headers.read(body[4:])  # they mean nothing here, but belong to the stream of zlib
        elif kind == SYN_REPLY:
            raise ProtocolViolation("SYN_REPLY to a server that opens no streams")
        # SETTINGS, WINDOW_UPDATE and GOAWAY ask nothing of us (the connection's end follows a GOAWAY), and unknown
        # control frames are to be passed over (section 2.2.1).

    def _syn_stream(self, events: list[SpdyEvent], flags: int, body: bytes) -> None:
        if len(body) < 10:
            raise ProtocolViolation("SYN_STREAM is cut short")
        stream = struct.unpack_from(">I", body)[0] & _LAST_ID
        headers = self._headers.read(body[10:])
        if stream % 2 == 0 or stream <= self._last:
            raise ProtocolViolation("streams of a client have odd numbers that rise")
        self._last = stream
        if len(self._open) >= self._most_streams:
            self._reset(stream, REFUSED_STREAM)
            return
        fin = bool(flags & _FIN)
        self._open[stream] = [not fin, True]
        events.append(Opened(stream, headers, fin))

    def accept(self, stream: int) -> None:
        """Answer a stream that was opened."""
        block = NEXT_EMPTY if self._replied else FIRST_EMPTY
        self._replied = True
        self._replies += struct.pack(">III", _VERSION | SYN_REPLY, 4 + len(block), stream) + block

    def reset(self, stream: int, reason: int) -> None:
        """Refuse or end a stream in both directions."""
        if self._open.pop(stream, None) is not None:
            self._reset(stream, reason)

    def _reset(self, stream: int, reason: int) -> None:
        self._replies += struct.pack(">IIII", _VERSION | RST_STREAM, 8, stream, reason)

    def head(self, stream: int, size: int) -> bytes:
        """What goes in front of so many bytes (fewer than 16 MiB); empty when the client has done with the stream."""
        state = self._open.get(stream)
        if state is None or not state[1]:
            return b""
        return struct.pack(">II", stream, size)

    def data(self, stream: int, data: bytes) -> bytes:
        """A frame with these bytes; empty likewise."""
        head = self.head(stream, len(data))
        return head + data if head else b""

    def end(self, stream: int, data: bytes = b"") -> bytes:
        """A frame that says that after these bytes (fewer than 16 MiB) nothing comes on this stream; empty likewise."""
        state = self._open.get(stream)
        if state is None or not state[1]:
            return b""
        self._half_close(stream, state, 1)
        return struct.pack(">II", stream, _FIN << 24 | len(data)) + data

    def go_away(self, *, violated: bool) -> bytes:
        """The frame that ends the connection."""
        reason = _GOAWAY_PROTOCOL_ERROR if violated else _GOAWAY_OK
        return struct.pack(">IIII", _VERSION | GOAWAY, 8, self._last, reason)
