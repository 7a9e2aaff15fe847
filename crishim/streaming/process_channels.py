"""Exec and attach over WebSocket: channels 0 to 4 are stdin, stdout, stderr, the status and the terminal's size."""

from __future__ import annotations

from crishim.model.streams import OutputStream, WantedStreams
from crishim.streaming.channels import CLOSE, ChannelReader, channel_message, channel_parts
from crishim.streaming.protocols import Channels
from crishim.streaming.sizes import SizeReader
from crishim.streaming.status import Status
from crishim.streaming.websocket import GOING_AWAY, NORMAL, PROTOCOL_ERROR, WebSocket
from crishim.streaming.wires import NOTHING, Input, InputEnd, Parts, ProcessEvent, ProcessWire, Ready, Resize

_STDIN, _ERROR, _RESIZE = 0, 3, 4
_CLOSE_FROM = 5
_CLOSES_STDIN = bytes([_STDIN])


class ChannelProcessWire(ProcessWire):
    """All streams are there from the beginning. Messages on channels that nobody reads are passed over."""

    def __init__(self, protocol: Channels, wanted: WantedStreams) -> None:
        self._protocol = protocol
        self._wanted = wanted
        self.has_sizes = wanted.tty and protocol.has_resize
        self._websocket = WebSocket()
        self._channels = ChannelReader(protocol)
        self._sizes = SizeReader()
        self._input_ended = not wanted.stdin
        # The sign of life of Kubernetes' own server: an empty message on the lowest channel that it writes.
        first = OutputStream.STDOUT if wanted.stdout else OutputStream.STDERR if wanted.stderr else _ERROR
        self._greeting = channel_message(self._websocket, protocol, first, b"")

    @property
    def closed(self) -> bool:
        return self._websocket.closed

    def take(self) -> bytes:
        greeting, self._greeting = self._greeting, b""
        return greeting + self._websocket.take()

    def begin(self) -> list[ProcessEvent]:
        return [Ready()]

    def feed(self, data: bytes) -> list[ProcessEvent]:
        events: list[ProcessEvent] = []
        for part in self._websocket.feed(data):
            if (message := self._channels.read(part)) is None:
                continue
            channel, content = message
            if channel == _STDIN:
                if content and not self._input_ended:
                    events.append(Input(content))
            elif channel == _RESIZE:
                if self.has_sizes:
                    events += [Resize(size) for size in self._sizes.feed(content)]
            elif channel == CLOSE and self._protocol.version >= _CLOSE_FROM and bytes(content) == _CLOSES_STDIN:
                if self._input_ended:
                    continue
                self._input_ended = True
                events.append(InputEnd())
        return events

    def output(self, stream: OutputStream, data: bytes) -> Parts:
        if not (self._wanted.stdout if stream is OutputStream.STDOUT else self._wanted.stderr):
            return NOTHING
        return channel_parts(self._websocket, self._protocol, stream, data)

    def heartbeat(self) -> bytes:
        return self._websocket.heartbeat()

    def ended(self, status: Status) -> bytes:
        text = status.as_json() if self._protocol.has_json_status else status.as_text()
        message = channel_message(self._websocket, self._protocol, _ERROR, text) if text else b""
        # Clients read the status up to the connection's orderly end.
        return message + self._websocket.close(NORMAL)

    def cut(self, status: Status) -> bytes:
        return self.farewell()  # its code says that this is no success

    def farewell(self, *, violation: str = "") -> bytes:
        return self._websocket.close(PROTOCOL_ERROR if violation else GOING_AWAY, violation)
