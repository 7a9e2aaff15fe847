"""A hijacked connection, on a transport that only keeps books."""

from __future__ import annotations

import asyncio
import struct

import pytest

from crishim.engine.docker.hijack import Hijacked
from crishim.errors import EngineUnavailable
from crishim.model.streams import OutputStream

OUT = OutputStream.STDOUT
UPGRADED = b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n"


def frame(payload: bytes) -> bytes:
    return struct.pack(">BxxxI", 1, len(payload)) + payload


class Books(asyncio.Transport):
    """Writes down what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reading = True
        self.ended = False
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def write_eof(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high


def open_stream(*, tty: bool = False, early: bytes = b"") -> tuple[Hijacked, Books]:
    """A stream whose engine has said yes."""
    stream, books = Hijacked("exec", tty=tty), Books()
    stream.connection_made(books)
    stream.data_received(UPGRADED + early)
    assert stream.answered.done()
    return stream, books


async def test_output_that_comes_with_the_upgrade() -> None:
    stream, _ = open_stream(early=frame(b"early")[:9])
    stream.data_received(b"arly")
    assert await stream.read() == (OUT, b"e")
    assert await stream.read() == (OUT, b"arly")
    stream.eof_received()
    assert await stream.read() is None
    assert await stream.read() is None


async def test_reader_is_woken() -> None:
    stream, _ = open_stream(tty=True)
    reading = asyncio.create_task(stream.read())
    await asyncio.sleep(0)
    assert not reading.done()
    stream.data_received(b"now")
    assert await reading == (OUT, b"now")


async def test_cancelled_reader_loses_nothing() -> None:
    stream, _ = open_stream(tty=True)
    reading = asyncio.create_task(stream.read())
    await asyncio.sleep(0)
    stream.data_received(b"kept")
    reading.cancel()
    await asyncio.wait([reading])
    if reading.cancelled():
        assert await stream.read() == (OUT, b"kept")
    else:
        assert reading.result() == (OUT, b"kept")


async def test_engine_is_held_up_until_output_is_read() -> None:
    stream, books = open_stream(tty=True)
    while books.reading:
        stream.data_received(b"x" * 65536)
        assert len(stream._items) < 100, "no end"
    pieces = 0
    while not books.reading:
        assert await stream.read() == (OUT, b"x" * 65536)
        pieces += 1
    assert pieces >= 2


async def test_writer_waits_for_room_and_for_no_longer_than_the_process() -> None:
    stream, books = open_stream()
    await stream.write(b"one")
    stream.pause_writing()
    writing = asyncio.create_task(stream.write(b"two"))
    await asyncio.sleep(0)
    assert books.written == b"onetwo"
    assert not writing.done()
    stream.resume_writing()
    await writing
    stream.pause_writing()
    last = asyncio.create_task(stream.write(b"three"))
    await asyncio.sleep(0)
    assert not last.done()
    stream.eof_received()
    await last
    assert books.aborted, "input that nobody will take was kept"
    await stream.write(b"four")
    assert books.written == b"onetwothree"


async def test_end_of_input_is_said_once() -> None:
    stream, books = open_stream()
    stream.write_eof()
    assert books.ended
    books.ended = False
    stream.write_eof()
    await stream.write(b"late")
    assert not books.ended
    assert books.written == b""


@pytest.mark.parametrize("end", [b"", frame(b"whole"), frame(b"torn")[:-1], frame(b"")[:3]])
async def test_stream_that_ends_in_a_frame_is_broken(end: bytes) -> None:
    stream, _ = open_stream(early=end)
    stream.eof_received()
    if end in (b"", frame(b"whole")):
        assert (await stream.read() is None) == (not end)
        return
    if end == frame(b"torn")[:-1]:
        assert await stream.read() == (OUT, b"tor")
    with pytest.raises(EngineUnavailable, match="broke off"):
        await stream.read()


async def test_connection_that_breaks() -> None:
    stream, _ = open_stream()
    reading = asyncio.create_task(stream.read())
    await asyncio.sleep(0)
    stream.connection_lost(ConnectionResetError("reset"))
    with pytest.raises(EngineUnavailable, match="it was closed"):
        await reading


async def test_connection_that_breaks_before_the_answer() -> None:
    stream = Hijacked("exec", tty=False)
    stream.connection_made(Books())
    stream.data_received(UPGRADED[:20])
    stream.eof_received()
    with pytest.raises(EngineUnavailable, match="broke off"):
        await stream.answered


async def test_what_is_no_frame_breaks_it() -> None:
    stream, books = open_stream(early=frame(b"good"))
    stream.data_received(b"nonsense")
    assert books.aborted
    assert await stream.read() == (OUT, b"good")
    with pytest.raises(EngineUnavailable, match="not understood"):
        await stream.read()


async def test_refusal_is_an_answer() -> None:
    stream = Hijacked("exec", tty=False)
    stream.connection_made(Books())
    stream.data_received(b'HTTP/1.1 409 Conflict\r\nContent-Length: 21\r\n\r\n{"message": "paused"')
    assert not stream.answered.done() or stream.answer.status == 409
    stream.data_received(b"}")
    assert stream.answered.done()
    assert (stream.answer.status, stream.answer.upgraded) == (409, False)


async def test_abort_ends_those_who_wait() -> None:
    stream, books = open_stream()
    reading = asyncio.create_task(stream.read())
    stream.pause_writing()
    writing = asyncio.create_task(stream.write(b"x"))
    await asyncio.sleep(0)
    stream.abort()
    assert books.aborted
    assert await reading is None
    await writing
