"""Multiplexed streams, however they are cut."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crishim.engine.docker.frames import FrameError, Frames, Raw
from crishim.model.streams import OutputStream

OUT, ERR = OutputStream.STDOUT, OutputStream.STDERR


def frame(number: int, payload: bytes) -> bytes:
    return struct.pack(">BxxxI", number, len(payload)) + payload


def joined(items: list[tuple[OutputStream, bytes]]) -> list[tuple[OutputStream, bytes]]:
    """Neighbours of one stream as one."""
    found: list[tuple[OutputStream, bytes]] = []
    for stream, payload in items:
        if found and found[-1][0] is stream:
            found[-1] = (stream, found[-1][1] + payload)
        else:
            found.append((stream, payload))
    return found


def test_neighbours_are_joined_and_the_order_is_kept() -> None:
    frames = Frames()
    data = frame(1, b"a") + frame(1, b"b") + frame(2, b"") + frame(2, b"c") + frame(1, b"d")
    assert frames.feed(data) == [(OUT, b"ab"), (ERR, b"c"), (OUT, b"d")]
    assert not frames.mid_frame


def test_a_payload_is_not_kept_until_it_is_whole() -> None:
    frames = Frames()
    assert frames.feed(frame(2, b"hello")[:10]) == [(ERR, b"he")]
    assert frames.mid_frame
    assert frames.feed(b"llo") == [(ERR, b"llo")]
    assert not frames.mid_frame


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=8),
    st.lists(st.integers(1, 17), min_size=1, max_size=20),
)
def test_any_cut_gives_the_same(sent: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = b"".join(frame(number, payload) for number, payload in sent)
    frames, found, position = Frames(), [], 0
    while position < len(data):
        size = cuts[position % len(cuts)]
        found += frames.feed(data[position : position + size])
        position += size
    assert joined(found) == joined([(OutputStream(number), payload) for number, payload in sent if payload])
    assert all(payload for _, payload in found)
    assert not frames.mid_frame


def test_the_engines_own_words_are_errors() -> None:
    assert Frames().feed(frame(3, b"oops")) == [(ERR, b"oops")]


def test_what_is_no_frame() -> None:
    with pytest.raises(FrameError, match="number 72"):
        Frames().feed(b"HTTP/1.1 ")


def test_a_terminal_has_no_frames() -> None:
    assert Raw().feed(b"\x01\0\0\0") == [(OUT, b"\x01\0\0\0")]
    assert Raw().feed(b"") == []
