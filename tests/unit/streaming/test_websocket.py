"""WebSocket: against the library's own client, in any pieces, with all that a client may do wrong."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, OPEN, Protocol

from crishim.streaming.errors import ProtocolViolation
from crishim.streaming.websocket import NORMAL, WebSocket
from tests.unit.streaming.spdy_client import bytewise, feed_all


def client_frames(*frames: Frame) -> bytes:
    return b"".join(frame.serialize(mask=True) for frame in frames)


def told(sent: bytes) -> list[Frame]:
    """What a client reads of what a server sent."""
    client = Protocol(CLIENT, state=OPEN, max_size=None)
    client.receive_data(sent)
    assert client.parser_exc is None
    return [event for event in client.events_received() if isinstance(event, Frame)]


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_messages_and_their_parts(step: int) -> None:
    sent = client_frames(
        Frame(Opcode.BINARY, b"one"),
        Frame(Opcode.PING, b"?"),
        Frame(Opcode.BINARY, b"t" * 70_000, fin=False),
        Frame(Opcode.PONG, b""),
        Frame(Opcode.CONT, b"wo", fin=True),
        Frame(Opcode.TEXT, b"three"),
        Frame(Opcode.BINARY, b""),
        Frame(Opcode.CLOSE, struct.pack(">H", NORMAL)),
    )
    websocket = WebSocket()
    messages: list[tuple[bool, bytes]] = []
    for at in range(0, len(sent), step):
        for first, text, data in websocket.feed(sent[at : at + step]):
            if first:
                messages.append((text, b""))
            messages[-1] = (text, messages[-1][1] + bytes(data))
    assert messages == [(False, b"one"), (False, b"t" * 70_000 + b"wo"), (True, b"three"), (False, b"")]
    assert websocket.closed
    assert [frame.opcode for frame in told(websocket.take())] == [Opcode.PONG, Opcode.CLOSE]
    assert websocket.feed(b"more") == []
    assert websocket.message(b"late") == b""


@pytest.mark.parametrize("size", [0, 1, 124, 125, 126, 65534, 65535, 65536, 1 << 20])
def test_frames_for_the_client(size: int) -> None:
    (frame,) = told(WebSocket().message(b"\1" + b"x" * size))
    assert (frame.opcode, frame.data, frame.fin) == (Opcode.BINARY, b"\1" + b"x" * size, True)
    (frame,) = told(WebSocket().message(b"1x", text=True))
    assert frame.opcode is Opcode.TEXT


def test_the_end_from_here() -> None:
    websocket = WebSocket()
    (frame,) = told(websocket.close(NORMAL, "é" * 200))
    assert frame.opcode is Opcode.CLOSE
    assert len(frame.data) <= 125
    assert websocket.close(NORMAL) == websocket.message(b"x") == websocket.heartbeat() == b""
    assert not websocket.closed
    websocket.feed(client_frames(Frame(Opcode.CLOSE, struct.pack(">H", NORMAL))))
    assert websocket.closed


def test_a_heartbeat_is_a_pong() -> None:
    (frame,) = told(WebSocket().heartbeat())
    assert frame.opcode is Opcode.PONG


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x82\x01x", 1002),  # not masked
        (b"\x83\x80\0\0\0\0", 1002),  # no such opcode
        (client_frames(Frame(Opcode.CONT, b"x")), 1002),
        (client_frames(Frame(Opcode.BINARY, b"x", fin=False), Frame(Opcode.BINARY, b"y")), 1002),
        (b"\xc2\x80\0\0\0\0", 1002),  # a reserved bit
        (b"\x82\xff" + b"\xff" * 8 + b"\0\0\0\0", 1002),
        (b"\x89\xfe\0\x7e\0\0\0\0", 1002),  # a ping of 126 bytes
        (b"\x09\x80\0\0\0\0", 1002),  # a ping in fragments
        (client_frames(Frame(Opcode.CLOSE, b"\0")), 1002),
        (client_frames(Frame(Opcode.CLOSE, struct.pack(">H", 1006))), 1002),
    ],
)
def test_violations_have_their_close_codes(sent: bytes, code: int) -> None:
    websocket = WebSocket()
    with pytest.raises(ProtocolViolation):
        feed_all(websocket.feed, bytewise(sent))
    (frame,) = told(websocket.take())
    assert frame.opcode is Opcode.CLOSE
    assert struct.unpack_from(">H", frame.data) == (code,)
    assert websocket.closed


def test_a_frame_of_any_length_is_passed_on_as_it_comes() -> None:
    websocket = WebSocket()
    sent = b"\x82\xff" + struct.pack(">Q", 1 << 40) + b"\1\2\3\4"
    assert websocket.feed(sent) == []
    for _ in range(10):
        (part,) = websocket.feed(bytes(100_001))
        assert len(part.data) == 100_001


@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4), st.lists(st.integers(1, 9)))
def test_masks_turn_with_the_pieces(plain: bytes, mask: bytes, sizes: list[int]) -> None:
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(plain))
    sent = b"\x82\xfe" + struct.pack(">H", len(plain)) + mask + masked
    websocket, received = WebSocket(), b""
    for size in [*sizes, len(sent)]:
        received += b"".join(bytes(part.data) for part in websocket.feed(sent[:size]))
        sent = sent[size:]
    assert received == plain


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_bytes_of_any_kind_do_no_harm(pieces: list[bytes]) -> None:
    for first in (b"", b"\x82\x85", b"\x02\xfe\x00\x10"):
        websocket = WebSocket()
        try:
            for piece in [first, *pieces]:
                websocket.feed(piece)
        except ProtocolViolation:
            assert websocket.closed
        assert len(websocket.take()) <= 200 + 2 * sum(map(len, pieces))
