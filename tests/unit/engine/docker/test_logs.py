"""The engine's log streams taken apart, however they are cut."""

from __future__ import annotations

import random

import pytest

from crishim.engine.docker.logs import PART, LogFrames, LogText, query
from crishim.engine.values import LogEntry
from crishim.errors import EngineError, EngineUnavailable

T1 = b"2026-01-02T03:04:05.000000678Z "
T2 = b"2026-01-02T05:04:05.100000000+02:00 "
AT = 1767323045 * 10**9


def frame(number: int, payload: bytes) -> bytes:
    return bytes([number, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


def read(parser: LogFrames | LogText, data: bytes, rng: random.Random | None = None) -> list[LogEntry]:
    found = []
    while data:
        size = rng.randrange(1, 40) if rng else len(data)
        found += parser.feed(data[:size])
        data = data[size:]
    return found + parser.end()


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_frames(seed: int | None) -> None:
    data = frame(1, T1 + b"one\n") + frame(2, T2 + b"two\n") + frame(1, T1 + b"no end") + frame(1, T1 + b"\n")
    assert read(LogFrames(), data, random.Random(seed) if seed else None) == [
        LogEntry(AT + 678, "stdout", b"one\n"),
        LogEntry(AT + 100_000_000, "stderr", b"two\n"),
        LogEntry(AT + 678, "stdout", b"no end"),
        LogEntry(AT + 678, "stdout", b"\n"),
    ]


def test_what_the_engine_says_instead_of_a_log_is_an_error() -> None:
    with pytest.raises(EngineError, match="Error grabbing logs: invalid character"):
        LogFrames().feed(frame(3, b"Error grabbing logs: invalid character\n"))
    with pytest.raises(EngineError, match="Error grabbing logs: EOF"):
        LogText().feed(T1 + b"one\nError grabbing logs: EOF\n")
    with pytest.raises(EngineError, match="not understood"):
        LogFrames().feed(frame(1, b"no time\n"))
    with pytest.raises(EngineError, match="not understood"):
        LogFrames().feed(frame(7, T1 + b"x"))


def test_a_stream_that_breaks_off_within_a_frame() -> None:
    parser = LogFrames()
    assert parser.feed(frame(1, T1 + b"one\n")[:-2]) == []
    with pytest.raises(EngineUnavailable):
        parser.end()


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_terminals_log(seed: int | None) -> None:
    """Parts of a line follow one another without an end; a line may hold what looks like a time."""
    long = b"x" * PART
    texts = [
        b"one\r\n",
        T1 + b"quoted\r\n",
        long,
        long,
        b"y\r\n",
        b"\n",
        b"x" * (PART - 1) + b"\n",
        long,
        b"\n",
        b"end",
    ]
    data = b"".join(T1 + text for text in texts)
    found = read(LogText(), data, random.Random(seed) if seed else None)
    assert [entry.text for entry in found] == texts
    assert {(entry.time, entry.stream) for entry in found} == {(AT + 678, "stdout")}


@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("rest", [b"", b"rest"])
def test_an_end_that_was_forgotten(seed: int | None, rest: bytes, *, tty: bool) -> None:
    """Of the last part of a line; what ends without one for good stays so."""
    parts = [T1 + b"x" * PART, T1 + b"x" * PART, T1 + rest, T2 + b"next\n", T1 + b"x" * PART, T1 + rest, T2 + b"end"]
    data = b"".join(parts if tty else (frame(1, part) for part in parts))
    parser = LogText() if tty else LogFrames()
    found = read(parser, data, random.Random(seed) if seed else None)
    long = b"x" * PART
    assert [entry.text for entry in found] == [long, long, rest + b"\n", b"next\n", long, rest + b"\n", b"end"]


def test_the_moment_from_which_on_is_asked_for_to_the_nanosecond() -> None:
    assert query(AT + 678)["since"] == "1767323045.000000678"
    assert "since" not in query(0)
