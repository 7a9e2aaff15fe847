"""Port-forward over WebSocket channels, version 4: ports are named beforehand, each has a data and an error channel.

The first message on either channel is the port's number, two bytes, little-endian. Nothing tells a half-close.
"""

from __future__ import annotations

from collections.abc import Sequence

from crishim.streaming.channels import ChannelReader, channel_message, channel_parts
from crishim.streaming.protocols import Channels
from crishim.streaming.websocket import GOING_AWAY, NORMAL, PROTOCOL_ERROR, WebSocket
from crishim.streaming.wires import ForwardEvent, ForwardWire, PairData, PairOpened, Parts

MOST_PORTS = 127
"""Ports of one session: two channels each, whose number is one byte."""


class ChannelForwardWire(ForwardWire):
    """Pairs are numbered as the ports are."""

    def __init__(self, protocol: Channels, ports: Sequence[int]) -> None:
        self._protocol = protocol
        self._ports = tuple(ports)
        self._open = set(range(len(self._ports)))
        self._websocket = WebSocket()
        self._channels = ChannelReader(protocol)
        self._greeting = b"".join(
            self._message(channel, port.to_bytes(2, "little"))
            for pair, port in enumerate(self._ports)
            for channel in (2 * pair, 2 * pair + 1)
        )

    @property
    def closed(self) -> bool:
        return self._websocket.closed

    def take(self) -> bytes:
        greeting, self._greeting = self._greeting, b""
        return greeting + self._websocket.take()

    def _message(self, channel: int, data: bytes) -> bytes:
        return channel_message(self._websocket, self._protocol, channel, data)

    def begin(self) -> list[ForwardEvent]:
        return [PairOpened(pair, port) for pair, port in enumerate(self._ports)]

    def feed(self, data: bytes) -> list[ForwardEvent]:
        events: list[ForwardEvent] = []
        for part in self._websocket.feed(data):
            if (message := self._channels.read(part)) is None:
                continue
            pair, is_error = divmod(message.channel, 2)
            if not is_error and pair in self._open and message.data:
                events.append(PairData(pair, message.data))
        return events

    def heartbeat(self) -> bytes:
        return self._websocket.heartbeat()

    def data(self, pair: int, data: bytes) -> Parts:
        return channel_parts(self._websocket, self._protocol, 2 * pair, data)

    def end(self, pair: int) -> bytes:
        return b""

    def finish(self, pair: int, error: str = "") -> bytes:
        if pair not in self._open:
            return b""
        self._open.discard(pair)
        told = self._message(2 * pair + 1, error.encode()) if error else b""
        return told if self._open else told + self._websocket.close(NORMAL)

    def farewell(self, *, violation: str = "") -> bytes:
        return self._websocket.close(PROTOCOL_ERROR if violation else GOING_AWAY, violation)
