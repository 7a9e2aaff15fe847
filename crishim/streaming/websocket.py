"""WebSocket frames (RFC 6455) of a server: bytes in, messages' parts out, bytes to send. No I/O.

Payloads are unmasked and passed on as they come, by the library's native code and copied once: that is what costs. No
frame is kept to its end, so that none is too long. Control frames, closing and its codes are the library's.
"""

from __future__ import annotations

import logging
import struct
from typing import NamedTuple, NoReturn

from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, SERVER, Protocol

try:
    from websockets.speedups import apply_mask
except ImportError:  # a package without the native part: slower, and the same
    from websockets.utils import apply_mask

from crishim.streaming.errors import ProtocolViolation

NORMAL, GOING_AWAY, PROTOCOL_ERROR = 1000, 1001, 1002
"""Close codes (section 7.4.1)."""
_log = logging.getLogger(f"{__name__}.library")
_log.setLevel(logging.WARNING)  # its debug lines hold what users type


_CONTROL_LIMIT = 125
_MOST = 1 << 63
"""Bytes that a frame cannot have (section 5.2)."""


class Part(NamedTuple):
    """A part of a message: whether it is the message's first, whether the message is text, and the bytes."""

    first: bool
    text: bool
    data: bytes | bytearray | memoryview


class WebSocket:
    """One connection after its handshake."""

    def __init__(self) -> None:
        self._protocol = Protocol(SERVER, state=OPEN, max_size=_CONTROL_LIMIT, logger=_log)
        self._head = bytearray()
        self._left = 0
        self._mask = b""
        self._first = False
        self._text = False
        self._in_message = False
        self.closed = False
        """The client said that it has done, or was told so by us and agreed: the connection is to be closed."""

    def take(self) -> bytes:
        """What is to be sent on the protocol's own account."""
        return b"".join(self._protocol.data_to_send())

    def feed(self, data: bytes) -> list[Part]:
        """Take bytes of the connection. Raises ProtocolViolation; what `take` gives then says why."""
        parts: list[Part] = []
        view = memoryview(data)
        at, end = 0, len(view)
        while at < end and not self.closed:
            if not self._left:
                at += self._take_head(parts, view[at:end])
                continue
            piece = min(self._left, end - at)
            parts.append(Part(self._first, self._text, apply_mask(view[at : at + piece], self._mask)))
            self._first = False
            self._left -= piece
            at += piece
            if turned := piece % 4:
                self._mask = self._mask[turned:] + self._mask[:turned]
        return parts

    def _take_head(self, parts: list[Part], view: memoryview) -> int:
        """Collect a frame's head, or a whole control frame; how many bytes of `view` that took."""
        head = self._head
        taken = 0
        size = 2
        while True:
            more = max(0, min(size - len(head), len(view) - taken))
            head += view[taken : taken + more]
            taken += more
            if len(head) < size:
                return taken
            if size > 2 or (size := self._size(head[0], head[1])) == 2:
                break
        frame = bytes(head)
        head.clear()
        if frame[0] & 8:
            self._control(frame)
        else:
            self._begin(parts, frame)
        return taken

    def _size(self, first: int, second: int) -> int:
        """How many bytes are to be collected, by the first two. Raises ProtocolViolation."""
        opcode, length = first & 15, second & 127
        if first & 0x70:
            self._fail("reserved bits are set")
        if not second & 0x80:
            self._fail("frame is not masked")
        if opcode in (0, 1, 2):
            return 6 + (0 if length < 126 else 2 if length == 126 else 8)
        if opcode not in (8, 9, 10):
            self._fail("frame has an unknown opcode")
        if not first & 0x80 or length > _CONTROL_LIMIT:
            self._fail("control frame is fragmented or too long")
        return 6 + length

    def _begin(self, parts: list[Part], head: bytes) -> None:
        opcode = head[0] & 15
        if self._in_message == bool(opcode):
            self._fail("a message begins in another one" if opcode else "there is no message to be continued")
        self._first = bool(opcode)
        if opcode:
            self._text = opcode == Opcode.TEXT
        self._in_message = not head[0] & 0x80
        self._mask = head[-4:]
        self._left = int.from_bytes(head[2:-4], "big") if len(head) > 6 else head[1] & 127
        if self._left >= _MOST:
            self._fail("frame is too long")
        if not self._left:
            parts.append(Part(self._first, self._text, b""))

    def _control(self, frame: bytes) -> None:
        protocol = self._protocol
        protocol.receive_data(frame)
        for event in protocol.events_received():
            if isinstance(event, Frame) and event.opcode is Opcode.CLOSE:
                self.closed = True
        if protocol.parser_exc is not None:
            self.closed = True
            raise ProtocolViolation(str(protocol.parser_exc))

    def _fail(self, reason: str) -> NoReturn:
        self._protocol.fail(PROTOCOL_ERROR, reason)
        self.closed = True
        raise ProtocolViolation(reason)

    def head(self, size: int, *, text: bool = False) -> bytes:
        """What goes in front of a message of so many bytes; empty once the end was told."""
        if self._protocol.state is not OPEN:
            return b""
        first = 0x81 if text else 0x82
        if size < 126:
            return struct.pack(">BB", first, size)
        if size < 1 << 16:
            return struct.pack(">BBH", first, 126, size)
        return struct.pack(">BBQ", first, 127, size)

    def message(self, data: bytes, *, text: bool = False) -> bytes:
        """A message; empty likewise."""
        head = self.head(len(data), text=text)
        return head + data if head else b""

    def heartbeat(self) -> bytes:
        """A pong that nobody asked for: it tells a client whose pings wait to be read that we are alive."""
        return b"\x8a\x00" if self._protocol.state is OPEN else b""

    def close(self, code: int, reason: str = "") -> bytes:
        """The frame that begins the end. `reason` is cut to what fits."""
        if self._protocol.state is not OPEN:
            return b""
        self._protocol.send_close(code, reason.encode()[:120].decode("utf-8", "ignore"))
        return self.take()
