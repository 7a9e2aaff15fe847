"""Port-forward over SPDY, plain or tunnelled in WebSocket: two streams for each connection, data and error."""

from __future__ import annotations

from dataclasses import dataclass, field

from crishim.streaming.errors import ProtocolViolation
from crishim.streaming.spdy import CANCEL, REFUSED_STREAM, Cancelled, Opened, Spdy, SpdyEvent
from crishim.streaming.websocket import GOING_AWAY, PROTOCOL_ERROR, WebSocket
from crishim.streaming.wires import NOTHING, ForwardEvent, ForwardWire, PairData, PairEnd, PairGone, PairOpened, Parts

MOST_PAIRS = 1000
"""Connections that one session may have open at once."""
_EARLY_LIMIT = 64 << 10
"""Bytes that may come on a data stream whose error stream has not been opened yet."""


@dataclass(slots=True)
class _Pair:
    """The two streams of one connection; 0 is one that has not been opened yet. It is known by the id of `data`."""

    request: str
    port: int
    data: int = 0
    error: int = 0
    early: list[bytes] = field(default_factory=list)
    ended: bool = False

    @property
    def complete(self) -> bool:
        return bool(self.data and self.error)


class SpdyForwardWire(ForwardWire):
    """Streams with the headers `streamtype`, `port` and `requestid`; the last joins the two of a pair."""

    def __init__(self) -> None:
        self._spdy = Spdy(most_streams=2 * MOST_PAIRS, small_headers=False)
        self._requests: dict[str, _Pair] = {}
        self._streams: dict[int, _Pair] = {}
        self._ends = bytearray()

    def take(self) -> bytes:
        taken = self._spdy.take() + bytes(self._ends)
        self._ends.clear()
        return taken

    def begin(self) -> list[ForwardEvent]:
        return []

    def feed(self, data: bytes | memoryview) -> list[ForwardEvent]:
        events: list[ForwardEvent] = []
        for event in self._spdy.feed(data):
            self._handle(events, event)
        return events

    def _handle(self, events: list[ForwardEvent], event: SpdyEvent) -> None:
        if isinstance(event, Opened):
            self._open(events, event)
            return
        pair = self._streams.get(event.stream)
        if pair is None or event.stream == pair.error:
            return
        if isinstance(event, Cancelled):
            if pair.complete:
                events.append(PairGone(pair.data))
                self._ends += self._spdy.end(pair.error)  # clients read it to its end before they go on
            self._forget(pair)
        elif pair.complete:
            if event.data:
                events.append(PairData(pair.data, event.data))
            if event.fin:
                events.append(PairEnd(pair.data))
        else:
            pair.early.append(bytes(event.data))
            pair.ended = event.fin
            if sum(map(len, pair.early)) > _EARLY_LIMIT:
                self._spdy.reset(pair.data, CANCEL)
                self._forget(pair)

    def _open(self, events: list[ForwardEvent], event: Opened) -> None:
        kind = event.headers.get("streamtype", "")
        port = event.headers.get("port", "")
        # A client of before request ids opens a pair's two streams one after the other, the error stream first.
        request = event.headers.get("requestid") or f"stream {event.stream - 2 if kind == 'data' else event.stream}"
        if kind not in ("data", "error") or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
            self._spdy.reset(event.stream, REFUSED_STREAM)
            return
        pair = self._requests.get(request)
        if pair is None:
            pair = self._requests[request] = _Pair(request, int(port))
        if getattr(pair, kind) or pair.port != int(port):
            self._spdy.reset(event.stream, REFUSED_STREAM)
            return
        setattr(pair, kind, event.stream)
        self._streams[event.stream] = pair
        self._spdy.accept(event.stream)
        if kind == "data" and event.fin:
            pair.ended = True
        if pair.complete:
            events.append(PairOpened(pair.data, pair.port))
            events += [PairData(pair.data, data) for data in pair.early if data]
            if pair.ended:
                events.append(PairEnd(pair.data))
            pair.early.clear()

    def data(self, pair: int, data: bytes) -> Parts:
        head = self._spdy.head(pair, len(data))
        return (head, data) if head else NOTHING

    def end(self, pair: int) -> bytes:
        # The error stream with it: clients read that to its end before they let a connection go.
        known = self._streams.get(pair)
        return b"" if known is None else self._spdy.end(known.data) + self._spdy.end(known.error)

    def finish(self, pair: int, error: str = "") -> bytes:
        known = self._streams.get(pair)
        if known is None:
            return b""
        self._forget(known)
        told = self._spdy.data(known.error, error.encode()) if error else b""
        return told + self._spdy.end(known.error) + self._spdy.end(known.data)

    def _forget(self, pair: _Pair) -> None:
        self._requests.pop(pair.request, None)
        self._streams.pop(pair.data, None)
        self._streams.pop(pair.error, None)

    def farewell(self, *, violation: str = "") -> bytes:
        return self._spdy.go_away(violated=bool(violation))


class TunnelForwardWire(ForwardWire):
    """The same bytes in the binary messages of a WebSocket; where a message ends means nothing."""

    def __init__(self) -> None:
        self._websocket = WebSocket()
        self._inner = SpdyForwardWire()

    @property
    def closed(self) -> bool:
        return self._websocket.closed

    def _wrap(self, data: bytes) -> bytes:
        return self._websocket.message(data) if data else b""

    def take(self) -> bytes:
        return self._wrap(self._inner.take()) + self._websocket.take()

    def begin(self) -> list[ForwardEvent]:
        return []

    def feed(self, data: bytes) -> list[ForwardEvent]:
        events: list[ForwardEvent] = []
        for part in self._websocket.feed(data):
            if part.text:
                raise ProtocolViolation("text message in a tunnel")
            events += self._inner.feed(memoryview(part.data))
        return events

    def heartbeat(self) -> bytes:
        return self._websocket.heartbeat()

    def data(self, pair: int, data: bytes) -> Parts:
        inner, payload = self._inner.data(pair, data)
        head = self._websocket.head(len(inner) + len(payload)) if inner else b""
        return (head + inner, payload) if head else NOTHING

    def end(self, pair: int) -> bytes:
        return self._wrap(self._inner.end(pair))

    def finish(self, pair: int, error: str = "") -> bytes:
        return self._wrap(self._inner.finish(pair, error))

    def farewell(self, *, violation: str = "") -> bytes:
        last = self._wrap(self._inner.farewell(violation=violation))
        code = PROTOCOL_ERROR if violation else GOING_AWAY
        return last + self._websocket.close(code, violation)
