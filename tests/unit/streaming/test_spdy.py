"""SPDY frames: in any pieces, in any order that clients may choose, and in none that they may not."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crishim.streaming.errors import ProtocolViolation
from crishim.streaming.spdy import CONTROL_LIMIT, Cancelled, Opened, Received, Spdy, SpdyEvent
from tests.unit.streaming.spdy_client import Client, bytewise, control, data, feed_all, frames, rst


def new(most_streams: int = 10) -> Spdy:
    return Spdy(most_streams=most_streams, small_headers=False)


def plain(events: list[SpdyEvent]) -> list[tuple[object, ...]]:
    """Events with the pieces of one payload joined."""
    joined: list[tuple[object, ...]] = []
    for event in events:
        if isinstance(event, Received):
            last = joined[-1] if joined else ()
            if last[:2] == ("data", event.stream) and not last[3]:
                joined[-1] = ("data", event.stream, last[2] + bytes(event.data), event.fin)  # type: ignore[operator]
            else:
                joined.append(("data", event.stream, bytes(event.data), event.fin))
        elif isinstance(event, Opened):
            joined.append(("opened", event.stream, event.headers, event.fin))
        else:
            joined.append(("cancelled", event.stream))
    return joined


def conversation() -> bytes:
    """A bit of everything."""
    client = Client()
    return b"".join(
        [
            client.syn(1, {"streamtype": "error"}),
            client.syn(3, {"streamtype": "stdin"}),
            control(4, struct.pack(">III", 1, 4, 100)),  # SETTINGS
            data(3, b"hello " * 50),
            control(6, struct.pack(">I", 7)),  # PING
            data(3, b""),
            client.syn(5, {"streamtype": "x"}, fin=True),
            control(9, struct.pack(">II", 3, 65536)),  # WINDOW_UPDATE
            control(8, struct.pack(">I", 3) + client.compress(b"\0\0\0\0")),  # HEADERS
            data(3, b"world", fin=True),
            rst(1),
            control(77, b"of the future"),
            control(7, struct.pack(">II", 0, 0)),  # GOAWAY
        ]
    )


def expected() -> list[tuple[object, ...]]:
    return [
        ("opened", 1, {"streamtype": "error"}, False),
        ("opened", 3, {"streamtype": "stdin"}, False),
        ("data", 3, b"hello " * 50, False),
        ("opened", 5, {"streamtype": "x"}, True),
        ("data", 3, b"world", True),
        ("cancelled", 1),
    ]


def test_a_conversation_at_once() -> None:
    spdy = new()
    assert plain(spdy.feed(conversation())) == expected()
    assert frames(spdy.take()) == [("ping", 7, b"")]


def test_a_conversation_one_byte_at_a_time() -> None:
    spdy = new()
    events = [event for byte in conversation() for event in spdy.feed(bytes([byte]))]
    assert plain([e for e in events if not isinstance(e, Received)]) == [e for e in expected() if e[0] != "data"]
    assert b"".join(bytes(e.data) for e in events if isinstance(e, Received)) == b"hello " * 50 + b"world"
    assert frames(spdy.take()) == [("ping", 7, b"")]


@given(st.lists(st.integers(1, 60)))
def test_a_conversation_in_pieces(sizes: list[int]) -> None:
    spdy, rest, events = new(), conversation(), []
    for size in [*sizes, len(rest)]:
        events += spdy.feed(rest[:size])
        rest = rest[size:]
    assert plain([e for e in events if not isinstance(e, Received)]) == [e for e in expected() if e[0] != "data"]
    assert b"".join(bytes(e.data) for e in events if isinstance(e, Received)) == b"hello " * 50 + b"world"


def test_large_payloads_are_not_copied() -> None:
    spdy = new()
    spdy.feed(Client().syn(1))
    received = data(1, b"x" * 100_000)
    (event,) = spdy.feed(received)
    assert isinstance(event, Received)
    assert event.data.obj is received


def test_answers() -> None:
    spdy, client = new(), Client()
    spdy.feed(client.syn(1) + client.syn(3))
    spdy.accept(1)
    spdy.reset(3, 3)
    told = spdy.take() + spdy.data(1, b"out") + spdy.end(1) + spdy.data(1, b"late") + spdy.end(1) + spdy.end(3)
    kinds = [(kind, stream) for kind, stream, _ in frames(told)]
    assert kinds == [("reply", 1), ("reset", 3), ("data", 1), ("fin", 1)]
    assert plain(spdy.feed(data(1, b"still open from there", fin=True))) == [
        ("data", 1, b"still open from there", True)
    ]
    assert frames(spdy.go_away(violated=True)) == [("goaway", 3, b"\0\0\0\1")]


def test_last_bytes_and_the_end_are_one_frame() -> None:
    spdy = new()
    spdy.feed(Client().syn(1))
    assert spdy.end(1, b"last") == data(1, b"last", fin=True)
    assert spdy.end(1, b"later") == spdy.data(1, b"later") == b""


def test_what_a_client_has_done_with_gives_nothing() -> None:
    spdy = new()
    spdy.feed(Client().syn(1))
    assert spdy.feed(rst(1)) == [Cancelled(1)]
    assert spdy.data(1, b"x") == spdy.end(1) == b""
    assert spdy.feed(rst(1) + data(1, b"crossed on the way")) == []
    assert spdy.take() == b""


def test_data_for_a_stream_that_never_was_is_told_once_per_frame_and_passed_over() -> None:
    spdy = new()
    assert spdy.feed(data(9, b"?" * 1000)) == []
    assert frames(spdy.take()) == [("reset", 9, struct.pack(">I", 2))]


def test_too_many_streams_are_refused_and_the_others_live() -> None:
    spdy, client = new(most_streams=2), Client()
    assert len(spdy.feed(client.syn(1) + client.syn(3) + client.syn(5))) == 2
    assert frames(spdy.take()) == [("reset", 5, struct.pack(">I", 3))]
    spdy.feed(rst(1))
    assert plain(spdy.feed(client.syn(7))) == [("opened", 7, {}, False)]


@pytest.mark.parametrize(
    ("received", "words"),
    [
        (b"\x80\x02\0\x01\0\0\0\0", "version 2"),
        (control(1, b"123"), "cut short"),
        (control(1, bytes(CONTROL_LIMIT)), "more than"),
        (control(6, b"12345"), "PING"),
        (control(3, b""), "RST_STREAM"),
        (control(8, b""), "HEADERS"),
        (control(2, b"1234"), "SYN_REPLY"),
        (data(0, b"x"), "stream 0"),
        (Client().syn(2), "odd numbers"),
        (Client().syn(0), "odd numbers"),
    ],
)
def test_violations(received: bytes, words: str) -> None:
    for pieces in ([received], bytewise(received)):
        spdy = new()
        with pytest.raises(ProtocolViolation, match=words):
            feed_all(spdy.feed, pieces)


def test_ids_rise() -> None:
    client, spdy = Client(), new()
    spdy.feed(client.syn(5))
    with pytest.raises(ProtocolViolation, match="rise"):
        spdy.feed(client.syn(5))


@given(st.binary(max_size=400), st.integers(0, 2**32))
def test_bytes_of_any_kind_do_no_harm(noise: bytes, seed: int) -> None:
    chance = random.Random(seed)
    spoilt = bytearray(conversation())
    for _ in range(chance.randrange(1, 6)):
        spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
    for stream in (noise, b"\x80\x03" + noise, bytes(spoilt)):
        spdy = new()
        try:
            while stream:
                size = chance.randrange(1, 60)
                spdy.feed(stream[:size])
                stream = stream[size:]
        except ProtocolViolation:
            pass
        assert len(spdy.take()) <= 16 * (len(noise) + len(spoilt))
