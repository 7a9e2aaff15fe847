"""WebSocket frames (RFC 6455) of a server: bytes in, messages' parts out, bytes to send. No I/O.

Parsing, unmasking, pings and closing are the library's; a message's parts are passed on as its frames come, so that no
message is too long. Frames to the client are put together here, with one copy instead of three.
"""

from __future__ import annotations

import logging
import struct
from typing import NamedTuple

from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, SERVER, Protocol

from crishim.streaming.errors import ProtocolViolation

FRAME_LIMIT = 4 << 20
"""Bytes of a client's frame. Kubernetes' clients send 32 KiB and a little; others what one call of theirs was given."""
NORMAL, GOING_AWAY, PROTOCOL_ERROR = 1000, 1001, 1002
"""Close codes (section 7.4.1)."""
_log = logging.getLogger(f"{__name__}.library")
_log.setLevel(logging.WARNING)  # its debug lines hold what users type


class Part(NamedTuple):
    """A part of a message: whether it is the message's first, whether the message is text, and the bytes."""

    first: bool
    text: bool
    data: bytes | bytearray | memoryview


class WebSocket:
    """One connection after its handshake."""

    def __init__(self) -> None:
        self._protocol = Protocol(SERVER, state=OPEN, max_size=(None, FRAME_LIMIT), logger=_log)
        self._text = False
        self.closed = False
        """The client said that it has done, or was told so by us and agreed: the connection is to be closed."""

    def take(self) -> bytes:
        """What is to be sent on the protocol's own account."""
        return b"".join(self._protocol.data_to_send())

    def feed(self, data: bytes) -> list[Part]:
        """Take bytes of the connection. Raises ProtocolViolation; what `take` gives then says why."""
        parts: list[Part] = []
        if self.closed:
            return parts
        protocol = self._protocol
        protocol.receive_data(data)
        for frame in protocol.events_received():
            assert isinstance(frame, Frame), "the handshake is over"
            opcode = frame.opcode
            if opcode is Opcode.BINARY or opcode is Opcode.TEXT:
                self._text = opcode is Opcode.TEXT
                parts.append(Part(True, self._text, frame.data))
            elif opcode is Opcode.CONT:
                parts.append(Part(False, self._text, frame.data))
            elif opcode is Opcode.CLOSE:
                self.closed = True
        if protocol.parser_exc is not None:
            self.closed = True
            raise ProtocolViolation(str(protocol.parser_exc))
        return parts

    def frame(self, head: bytes, data: bytes, *, text: bool = False) -> bytes:
        """A message of `head` and `data`; empty once the end was told."""
        if self._protocol.state is not OPEN:
            return b""
        length = len(head) + len(data)
        first = 0x81 if text else 0x82
        if length < 126:
            return b"%c%c%b%b" % (first, length, head, data)
        if length < 1 << 16:
            return b"%c\x7e%b%b%b" % (first, struct.pack(">H", length), head, data)
        return b"%c\x7f%b%b%b" % (first, struct.pack(">Q", length), head, data)

    def heartbeat(self) -> bytes:
        """A pong that nobody asked for: it tells a client whose pings wait to be read that we are alive."""
        return b"\x8a\x00" if self._protocol.state is OPEN else b""

    def close(self, code: int, reason: str = "") -> bytes:
        """The frame that begins the end. `reason` is cut to what fits."""
        if self._protocol.state is not OPEN:
            return b""
        self._protocol.send_close(code, reason.encode()[:120].decode("utf-8", "ignore"))
        return self.take()
