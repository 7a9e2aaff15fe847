"""Port-forward in all its protocols."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, OPEN, Protocol

from crishim.streaming.errors import ProtocolViolation
from crishim.streaming.forward_channels import ChannelForwardWire
from crishim.streaming.forward_spdy import MOST_PAIRS, SpdyForwardWire, TunnelForwardWire
from crishim.streaming.protocols import FORWARD_CHANNELS
from crishim.streaming.wires import ForwardEvent, PairData, PairEnd, PairGone, PairOpened
from tests.unit.streaming.spdy_client import Client, bytewise, data, feed_all, frames, rst


def plain(events: Sequence[ForwardEvent]) -> list[ForwardEvent]:
    return [PairData(event.pair, bytes(event.data)) if isinstance(event, PairData) else event for event in events]


def pair(client: Client, error: int, port: int = 80, request: str = "0") -> bytes:
    """A pair as client-go opens it: error stream, ended at once, then data."""
    headers = {"port": str(port), "requestid": request}
    opened = client.syn(error, {"streamtype": "error", **headers}) + data(error, b"", fin=True)
    return opened + client.syn(error + 2, {"streamtype": "data", **headers})


def test_spdy_pairs_side_by_side() -> None:
    wire, client = SpdyForwardWire(), Client()
    sent = pair(client, 1) + pair(client, 5, 81, "1") + data(3, b"a") + data(7, b"b") + data(3, b"", fin=True)
    assert plain([event for byte in bytewise(sent) for event in wire.feed(byte)]) == [
        PairOpened(3, 80),
        PairOpened(7, 81),
        PairData(3, b"a"),
        PairData(7, b"b"),
        PairEnd(3),
    ]
    assert [(kind, stream) for kind, stream, _ in frames(wire.take())] == [("reply", n) for n in (1, 3, 5, 7)]
    assert frames(b"".join(wire.data(3, b"out"))) == [("data", 3, b"out")]
    assert frames(wire.end(3)) == [("fin", 3, b""), ("fin", 1, b"")]
    assert wire.finish(3) == b"".join(wire.data(3, b"late")) == wire.end(3) == b""
    assert frames(wire.finish(7, "port 81 refused")) == [
        ("data", 5, b"port 81 refused"),
        ("fin", 5, b""),
        ("fin", 7, b""),
    ]
    assert wire.feed(data(7, b"late")) == []


def test_spdy_a_pair_that_the_client_drops_has_its_error_stream_ended() -> None:
    wire, client = SpdyForwardWire(), Client()
    wire.feed(pair(client, 1))
    wire.take()
    assert wire.feed(rst(3)) == [PairGone(3)]
    assert frames(wire.take()) == [("fin", 1, b"")]
    assert plain(wire.feed(pair(client, 5))) == [PairOpened(7, 80)]


def test_spdy_data_before_its_error_stream_waits_for_it() -> None:
    wire, client = SpdyForwardWire(), Client()
    headers = {"port": "80", "requestid": "x"}
    assert wire.feed(client.syn(1, {"streamtype": "data", **headers}) + data(1, b"early", fin=True)) == []
    assert plain(wire.feed(client.syn(3, {"streamtype": "error", **headers}))) == [
        PairOpened(1, 80),
        PairData(1, b"early"),
        PairEnd(1),
    ]
    wire.feed(client.syn(5, {"streamtype": "data", "port": "80", "requestid": "y"}))
    wire.take()
    feed_all(wire.feed, [data(5, b"x" * 60_000)] * 3)
    assert [(kind, stream) for kind, stream, _ in frames(wire.take())] == [("reset", 5)]


def test_spdy_clients_of_before_request_ids() -> None:
    wire, client = SpdyForwardWire(), Client()
    sent = client.syn(1, {"streamtype": "error", "port": "80"}) + client.syn(3, {"streamtype": "data", "port": "80"})
    sent += client.syn(5, {"streamtype": "error", "port": "80"}) + client.syn(7, {"streamtype": "data", "port": "80"})
    assert wire.feed(sent) == [PairOpened(3, 80), PairOpened(7, 80)]


@pytest.mark.parametrize(
    "headers",
    [
        {"streamtype": "data"},
        {"streamtype": "data", "port": "0"},
        {"streamtype": "data", "port": "65536"},
        {"streamtype": "data", "port": "-1"},
        {"streamtype": "data", "port": "\xb2"},
        {"streamtype": "data", "port": "1" * 5000},
        {"streamtype": "stdin", "port": "80"},
        {"port": "80"},
    ],
)
def test_spdy_streams_that_are_no_part_of_a_pair_are_refused(headers: dict[str, str]) -> None:
    wire = SpdyForwardWire()
    assert wire.feed(Client().syn(1, headers)) == []
    assert [(kind, stream) for kind, stream, _ in frames(wire.take())] == [("reset", 1)]


def test_spdy_a_pair_has_two_streams_and_one_port() -> None:
    wire, client = SpdyForwardWire(), Client()
    wire.feed(pair(client, 1))
    wire.take()
    wire.feed(client.syn(5, {"streamtype": "data", "port": "80", "requestid": "0"}))
    wire.feed(client.syn(7, {"streamtype": "data", "port": "80", "requestid": "9"}))
    wire.feed(client.syn(9, {"streamtype": "error", "port": "81", "requestid": "9"}))
    assert [(kind, n) for kind, n, _ in frames(wire.take())] == [("reset", 5), ("reply", 7), ("reset", 9)]


def test_spdy_pairs_are_bounded() -> None:
    wire, client = SpdyForwardWire(), Client()
    for number in range(MOST_PAIRS + 1):
        events = wire.feed(pair(client, 4 * number + 1, request=str(number)))
        assert len(events) == (number < MOST_PAIRS)


def wrapped(sent: bytes, size: int) -> bytes:
    parts = [sent[at : at + size] for at in range(0, len(sent), size)]
    return b"".join(Frame(Opcode.BINARY, part).serialize(mask=True) for part in parts)


def unwrapped(sent: bytes) -> bytes:
    client = Protocol(CLIENT, state=OPEN)
    client.receive_data(sent)
    found = [frame for frame in client.events_received() if isinstance(frame, Frame)]
    return b"".join(bytes(frame.data) for frame in found if frame.opcode is Opcode.BINARY)


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_a_tunnel_holds_the_same_bytes_wherever_messages_end(size: int) -> None:
    wire = TunnelForwardWire()
    sent = wrapped(pair(Client(), 1) + data(3, b"x" * 100), size)
    events = plain(wire.feed(sent))
    assert events[0] == PairOpened(3, 80)
    assert b"".join(bytes(event.data) for event in events[1:] if isinstance(event, PairData)) == b"x" * 100
    assert [(kind, n) for kind, n, _ in frames(unwrapped(wire.take()))] == [("reply", 1), ("reply", 3)]
    assert frames(unwrapped(b"".join(wire.data(3, b"y")) + wire.finish(3, "why"))) == [
        ("data", 3, b"y"),
        ("data", 1, b"why"),
        ("fin", 1, b""),
        ("fin", 3, b""),
    ]
    assert [kind for kind, _, _ in frames(unwrapped(wire.farewell()))] == ["goaway"]


def test_a_tunnel_of_text_is_a_violation() -> None:
    with pytest.raises(ProtocolViolation):
        TunnelForwardWire().feed(Frame(Opcode.TEXT, b"x").serialize(mask=True))


@given(st.binary(max_size=200))
def test_noise(noise: bytes) -> None:
    for wire in (SpdyForwardWire(), TunnelForwardWire()):
        try:
            wire.feed(pair(Client(), 1) + noise if isinstance(wire, SpdyForwardWire) else wrapped(noise, 20) + noise)
        except ProtocolViolation:
            assert wire.farewell(violation="noise") or wire.take()


@pytest.mark.parametrize("name", FORWARD_CHANNELS)
def test_channels_begin_with_the_ports(name: str) -> None:
    protocol = FORWARD_CHANNELS[name]
    wire = ChannelForwardWire(protocol, [80, 8080])
    assert wire.begin() == [PairOpened(0, 80), PairOpened(1, 8080)]
    client = Protocol(CLIENT, state=OPEN)
    client.receive_data(
        wire.take() + b"".join(wire.data(1, b"out")) + wire.finish(0, "refused") + wire.finish(0) + wire.finish(1)
    )
    received = [bytes(frame.data) for frame in client.events_received() if isinstance(frame, Frame)]
    if not protocol.base64:
        assert received[:4] == [b"\0\x50\0", b"\1\x50\0", b"\2\x90\x1f", b"\3\x90\x1f"]
        assert received[4:6] == [b"\2out", b"\1refused"]
    assert received[-1][:2] == (1000).to_bytes(2, "big")
    wire = ChannelForwardWire(protocol, [80])
    text = Frame(Opcode.TEXT, b"0aGk=") if protocol.base64 else Frame(Opcode.BINARY, b"\0hi")
    assert plain(wire.feed(text.serialize(mask=True))) == [PairData(0, b"hi")]
