"""Exec and attach over SPDY: a stream for each of stdin, stdout, stderr, the status and the terminal's size."""

from __future__ import annotations

from crishim.model.streams import OutputStream, WantedStreams
from crishim.streaming.protocols import Channels
from crishim.streaming.sizes import SizeReader
from crishim.streaming.spdy import REFUSED_STREAM, Opened, Received, Spdy
from crishim.streaming.status import Status
from crishim.streaming.wires import NOTHING, Input, InputEnd, Parts, ProcessEvent, ProcessWire, Ready, Resize

_TYPE = "streamtype"
"""Header that says what a stream is for (Kubernetes' core API)."""
_OUTPUTS = {"stdout": OutputStream.STDOUT, "stderr": OutputStream.STDERR}


class SpdyProcessWire(ProcessWire):
    """The client opens the streams; each one that the request asked for, once."""

    def __init__(self, protocol: Channels, wanted: WantedStreams) -> None:
        self._protocol = protocol
        self._missing = {"error"}
        self._missing |= {name for name in ("stdin", "stdout", "stderr") if getattr(wanted, name)}
        self.has_sizes = wanted.tty and protocol.has_resize
        if self.has_sizes:
            self._missing.add("resize")
        self._spdy = Spdy(most_streams=len(self._missing), small_headers=True)
        self._kinds: dict[int, str] = {}
        self._ids: dict[str, int] = {}
        self._outputs: dict[OutputStream, int] = {}
        self._sizes = SizeReader()
        self._input_ended = False

    def take(self) -> bytes:
        return self._spdy.take()

    def begin(self) -> list[ProcessEvent]:
        return []

    def feed(self, data: bytes) -> list[ProcessEvent]:
        events: list[ProcessEvent] = []
        for event in self._spdy.feed(data):
            if isinstance(event, Received):
                kind = self._kinds[event.stream]
                if kind == "stdin":
                    if event.data:
                        events.append(Input(event.data))
                    if event.fin:
                        self._end_input(events)
                elif kind == "resize":
                    events += [Resize(size) for size in self._sizes.feed(event.data)]
            elif isinstance(event, Opened):
                self._open(events, event)
            elif self._kinds[event.stream] == "stdin":  # cancelled
                self._end_input(events)
        return events

    def _open(self, events: list[ProcessEvent], event: Opened) -> None:
        kind = event.headers.get(_TYPE, "")
        if kind not in self._missing:
            self._spdy.reset(event.stream, REFUSED_STREAM)
            return
        self._missing.discard(kind)
        self._kinds[event.stream] = kind
        self._ids[kind] = event.stream
        if kind in _OUTPUTS:
            self._outputs[_OUTPUTS[kind]] = event.stream
        self._spdy.accept(event.stream)
        if not self._missing:
            events.append(Ready())
        if kind == "stdin" and event.fin:
            self._end_input(events)

    def _end_input(self, events: list[ProcessEvent]) -> None:
        if not self._input_ended:
            self._input_ended = True
            events.append(InputEnd())

    def output(self, stream: OutputStream, data: bytes) -> Parts:
        number = self._outputs.get(stream, 0)
        head = self._spdy.head(number, len(data))
        return (head, data) if head else NOTHING

    def ended(self, status: Status) -> bytes:
        spdy, ids = self._spdy, self._ids
        parts = [spdy.end(ids[kind]) for kind in ("stdout", "stderr", "stdin", "resize") if kind in ids]
        if "error" in ids:
            text = status.as_json() if self._protocol.has_json_status else status.as_text()
            parts.append(spdy.end(ids["error"], text))
        return b"".join(parts)

    def cut(self, status: Status) -> bytes:
        return self.ended(status) + self.farewell()

    def farewell(self, *, violation: str = "") -> bytes:
        return self._spdy.go_away(violated=bool(violation))
