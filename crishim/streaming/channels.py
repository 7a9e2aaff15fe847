"""Kubernetes' channels in WebSocket: a message's first byte is the channel, in the base64 protocols its digit."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from crishim.streaming.errors import ProtocolViolation
from crishim.streaming.protocols import Channels
from crishim.streaming.websocket import Part, WebSocket
from crishim.streaming.wires import NOTHING, Parts

CLOSE = 255
"""Channel whose messages name another one that the client closes (from version 5 on)."""


class ChannelPart(NamedTuple):
    """Bytes for a channel, which may be a part of a message."""

    channel: int
    data: bytes | bytearray | memoryview


class ChannelReader:
    """Takes the channel's number off the messages."""

    def __init__(self, protocol: Channels) -> None:
        self._base64 = protocol.base64
        self._channel: int | None = None
        self._text = bytearray()

    def read(self, part: Part) -> ChannelPart | None:
        """None when the part holds nothing yet. Raises ProtocolViolation."""
        data: bytes | bytearray | memoryview = part.data
        if part.first:
            self._channel = None
            if part.text != self._base64:
                raise ProtocolViolation("text message" if part.text else "binary message in a base64 protocol")
            if self._text:
                raise ProtocolViolation("message is not base64")
        if not data:
            return None
        if self._channel is None:
            self._channel = data[0] - ord("0") if self._base64 else data[0]
            data = memoryview(data)[1:]
        if self._base64:
            data = self._decode(data)
        return ChannelPart(self._channel, data)

    def _decode(self, data: bytes | bytearray | memoryview) -> bytes:
        # A message's parts need not end where four digits do.
        text = self._text
        text += data
        whole = len(text) & ~3
        try:
            plain = base64.b64decode(text[:whole], validate=True)
        except (binascii.Error, ValueError):
            raise ProtocolViolation("message is not base64") from None
        del text[:whole]
        return plain


def channel_parts(websocket: WebSocket, protocol: Channels, channel: int, data: bytes) -> Parts:
    """A message with these bytes for the client."""
    if protocol.base64:
        return websocket.message(b"%d%b" % (channel, base64.b64encode(data)), text=True), b""
    head = websocket.head(1 + len(data))
    return (b"%b%c" % (head, channel), data) if head else NOTHING


def channel_message(websocket: WebSocket, protocol: Channels, channel: int, data: bytes) -> bytes:
    """The same in one."""
    return b"".join(channel_parts(websocket, protocol, channel, data))
