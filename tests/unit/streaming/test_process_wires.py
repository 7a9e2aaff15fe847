"""Exec and attach in both transports: what clients send becomes the same events, what they are told they can read."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, OPEN, Protocol

from crishim.model.streams import OutputStream, TerminalSize, WantedStreams
from crishim.streaming.errors import ProtocolViolation
from crishim.streaming.process_channels import ChannelProcessWire
from crishim.streaming.process_spdy import SpdyProcessWire
from crishim.streaming.protocols import PROCESS, Channels
from crishim.streaming.status import Status
from crishim.streaming.upgrade import Transport
from crishim.streaming.wires import Input, InputEnd, ProcessEvent, Ready, Resize
from tests.unit.streaming.spdy_client import Client, bytewise, data, feed_all, frames, rst

ALL = WantedStreams(tty=False, stdin=True, stdout=True, stderr=True)
TTY = WantedStreams(tty=True, stdin=True, stdout=True, stderr=False)
V4 = Channels("v4.channel.k8s.io", 4)
V5 = Channels("v5.channel.k8s.io", 5)


def plain(events: Sequence[ProcessEvent]) -> list[object]:
    """Events with neighbouring inputs joined."""
    joined: list[object] = []
    for event in events:
        if isinstance(event, Input):
            if joined and isinstance(joined[-1], bytes):
                joined[-1] += bytes(event.data)
            else:
                joined.append(bytes(event.data))
        else:
            joined.append(event)
    return joined


# --- SPDY -----------------------------------------------------------------------------------------------------------


def opened(wanted: WantedStreams, protocol: Channels = V4) -> tuple[SpdyProcessWire, dict[str, int]]:
    wire, client, ids = SpdyProcessWire(protocol, wanted), Client(), {}
    names = ["error", "stdin", "stdout", *(["resize"] if wanted.tty else ["stderr"])]
    for number, name in enumerate(names):
        ids[name] = 2 * number + 1
        events = wire.feed(client.syn(ids[name], {"streamtype": name}))
        assert events == ([Ready()] if name == names[-1] else [])
        assert [kind for kind, _, _ in frames(wire.take())] == ["reply"]
    return wire, ids


def test_spdy_from_the_streams_to_the_status() -> None:
    wire, ids = opened(ALL)
    sent = data(ids["stdin"], b"some ") + data(ids["stdin"], b"input", fin=True)
    assert plain([event for byte in bytewise(sent) for event in wire.feed(byte)]) == [b"some input", InputEnd()]
    told = (
        b"".join(wire.output(OutputStream.STDOUT, b"out"))
        + b"".join(wire.output(OutputStream.STDERR, b"err"))
        + wire.ended(Status(3))
    )
    *output, status, end = frames(told)
    assert output == [
        ("data", ids["stdout"], b"out"),
        ("data", ids["stderr"], b"err"),
        ("fin", ids["stdout"], b""),
        ("fin", ids["stderr"], b""),
        ("fin", ids["stdin"], b""),
    ]
    assert status[:2] == ("data", ids["error"])
    assert json.loads(status[2])["reason"] == "NonZeroExitCode"
    assert end == ("fin", ids["error"], b"")


def test_spdy_sizes_and_a_stdin_that_is_dropped() -> None:
    wire, ids = opened(TTY)
    sent = data(ids["resize"], b'{"Width":80,') + data(ids["resize"], b'"Height":24}\n') + rst(ids["stdin"])
    assert wire.feed(sent) == [Resize(TerminalSize(80, 24)), InputEnd()]
    assert b"".join(wire.output(OutputStream.STDERR, b"a terminal has none")) == b""


def test_spdy_streams_that_were_not_asked_for_or_are_there_already_are_refused() -> None:
    client = Client()
    wire = SpdyProcessWire(V4, WantedStreams(tty=False, stdin=False, stdout=True, stderr=False))
    wire.feed(client.syn(1, {"streamtype": "error"}))
    for stream, kind in ((3, "stdin"), (5, "error"), (7, "nonsense"), (9, "resize")):
        wire.take()
        assert wire.feed(client.syn(stream, {"streamtype": kind})) == []
        assert [(name, number) for name, number, _ in frames(wire.take())] == [("reset", stream)]
    assert wire.feed(client.syn(11, {"streamtype": "stdout"})) == [Ready()]


def test_spdy_output_that_the_client_dropped_is_not_sent() -> None:
    wire, ids = opened(ALL)
    assert wire.feed(rst(ids["stdout"])) == []
    assert b"".join(wire.output(OutputStream.STDOUT, b"x")) == b""
    assert ("fin", ids["error"], b"") in frames(wire.ended(Status()))


def test_spdy_before_version_4_tells_text_and_knows_no_sizes_before_3() -> None:
    wire, client = SpdyProcessWire(Channels("channel.k8s.io", 1), TTY), Client()
    for number, name in enumerate(("error", "stdin", "stdout")):
        events = wire.feed(client.syn(2 * number + 1, {"streamtype": name}))
    assert events == [Ready()]
    told = frames(wire.ended(Status(2)))
    assert ("data", 1, b"command terminated with non-zero exit code: 2") in told


def test_spdy_farewell() -> None:
    wire, _ = opened(ALL)
    assert frames(wire.farewell())[0][2] == struct.pack(">I", 0)
    assert frames(wire.farewell(violation="x"))[0][2] == struct.pack(">I", 1)


@given(st.binary(max_size=200))
def test_spdy_noise(noise: bytes) -> None:
    wire, _ = opened(ALL)
    try:
        feed_all(wire.feed, [noise])
    except ProtocolViolation:
        assert wire.farewell(violation="x")


# --- WebSocket ------------------------------------------------------------------------------------------------------


def message(protocol: Channels, channel: int, content: bytes) -> bytes:
    if protocol.base64:
        return Frame(Opcode.TEXT, b"%d" % channel + base64.b64encode(content)).serialize(mask=True)
    return Frame(Opcode.BINARY, bytes([channel]) + content).serialize(mask=True)


def told(protocol: Channels, sent: bytes) -> list[tuple[int, bytes] | int]:
    """Messages for a client as (channel, content), and close codes."""
    client = Protocol(CLIENT, state=OPEN)
    client.receive_data(sent)
    found: list[tuple[int, bytes] | int] = []
    for frame in client.events_received():
        assert isinstance(frame, Frame)
        content = bytes(frame.data)
        if frame.opcode is Opcode.CLOSE:
            found.append(struct.unpack_from(">H", content)[0])
        elif protocol.base64:
            assert frame.opcode is Opcode.TEXT
            found.append((int(content[:1]), base64.b64decode(content[1:])))
        else:
            found.append((content[0], content[1:]))
    return found


@pytest.mark.parametrize("protocol", PROCESS[Transport.WEBSOCKET].values(), ids=lambda protocol: protocol.name)
@pytest.mark.parametrize("step", [1, 1 << 20])
def test_channels_of_all_protocols(protocol: Channels, step: int) -> None:
    wire = ChannelProcessWire(protocol, TTY)
    assert wire.begin() == [Ready()]
    assert told(protocol, wire.take()) == [(1, b"")]
    sent = (
        message(protocol, 0, b"some ") + message(protocol, 4, b'{"Width":5,"Height":6}') + message(protocol, 0, b"in")
    )
    events = [event for at in range(0, len(sent), step) for event in wire.feed(sent[at : at + step])]
    sizes = [Resize(TerminalSize(5, 6))] if protocol.version >= 3 else []
    assert plain(events) == ([b"some ", *sizes, b"in"] if sizes else [b"some in"])
    out = b"".join(wire.output(OutputStream.STDOUT, b"out")) + b"".join(wire.output(OutputStream.STDERR, b"none"))
    output, status, end = told(protocol, out + wire.ended(Status(7)))
    assert output == (1, b"out")
    assert isinstance(status, tuple)
    assert status[0] == 3
    assert (b"ExitCode" in status[1]) == protocol.has_json_status
    assert end == 1000


def test_channels_half_close_stdin_from_version_5_on() -> None:
    close = message(V5, 255, b"\0")
    wire = ChannelProcessWire(V5, ALL)
    assert wire.feed(message(V5, 0, b"x") + close + close + message(V5, 0, b"late")) == [Input(b"x"), InputEnd()]
    assert wire.feed(message(V5, 255, b"\1") + message(V5, 255, b"") + message(V5, 9, b"?")) == []
    assert ChannelProcessWire(V4, ALL).feed(close) == []


def test_channels_of_a_fragmented_message() -> None:
    sent = Frame(Opcode.BINARY, b"\0one", fin=False).serialize(mask=True)
    sent += Frame(Opcode.CONT, b"\0two", fin=False).serialize(mask=True)
    sent += Frame(Opcode.CONT, b"").serialize(mask=True)
    assert plain(ChannelProcessWire(V5, ALL).feed(sent)) == [b"one\0two"]
    sent = Frame(Opcode.TEXT, b"0" + base64.b64encode(b"hello")[:3], fin=False).serialize(mask=True)
    sent += Frame(Opcode.CONT, base64.b64encode(b"hello")[3:]).serialize(mask=True)
    base64d = PROCESS[Transport.WEBSOCKET]["v4.base64.channel.k8s.io"]
    assert plain(ChannelProcessWire(base64d, ALL).feed(sent)) == [b"hello"]


@pytest.mark.parametrize(
    ("protocol", "sent"),
    [
        (V5, Frame(Opcode.TEXT, b"0text").serialize(mask=True)),
        (V5, message(V5, 4, b"no size}")),
        (PROCESS[Transport.WEBSOCKET]["base64.channel.k8s.io"], Frame(Opcode.TEXT, b"0%%%%").serialize(mask=True)),
        (PROCESS[Transport.WEBSOCKET]["base64.channel.k8s.io"], Frame(Opcode.BINARY, b"\0x").serialize(mask=True)),
    ],
)
def test_channels_violations_are_told_by_code_1002(protocol: Channels, sent: bytes) -> None:
    wire = ChannelProcessWire(protocol, TTY)
    wire.take()
    with pytest.raises(ProtocolViolation):
        wire.feed(sent)
    assert told(protocol, wire.take() + wire.farewell(violation="é" * 100)) == [1002]


def test_channels_input_that_was_not_asked_for_is_passed_over() -> None:
    wire = ChannelProcessWire(V5, WantedStreams(tty=False, stdin=False, stdout=False, stderr=True))
    assert told(V5, wire.take()) == [(2, b"")]
    assert wire.feed(message(V5, 0, b"x") + message(V5, 255, b"\0") + message(V5, 4, b"x}")) == []
    assert b"".join(wire.output(OutputStream.STDOUT, b"x")) == b""
