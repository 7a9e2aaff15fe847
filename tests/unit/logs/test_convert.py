"""From json-file to CRI lines: the fast ways and the slow one say the same, and what is said is what was printed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crishim.engine.simulated.spool import encode
from crishim.logs import convert as module
from crishim.logs.convert import PART, convert


def spooled(*printed: tuple[str, bytes]) -> bytes:
    """Output (stream, bytes) as the engine keeps it."""
    now = itertools.count(1_700_000_000_000_000_000, 1_234_500)
    return b"".join(line for stream, data in printed for line in encode(data, stream, lambda: next(now)))


def told(lines: bytes) -> list[tuple[bytes, bytes]]:
    """What CRI lines say was printed: (stream, bytes), the same stream's joined."""
    found: list[tuple[bytes, bytes]] = []
    assert lines == b"" or lines.endswith(b"\n")
    for line in lines.split(b"\n")[:-1]:
        time, stream, tag, text = line.split(b" ", 3)
        assert time.endswith(b"Z")
        assert tag in (b"F", b"P")
        assert len(text) <= PART
        found.append((stream, text + b"\n" if tag == b"F" else text))
    return joined(found)


def joined(printed: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [
        (stream, data)
        for stream, group in itertools.groupby(printed, key=lambda item: item[0])
        if (data := b"".join(text for _, text in group))
    ]


ALPHABET = st.sampled_from(
    ["a", "b", " ", "\n", "\r", "\t", "\0", "\x01", "\x1b", "\\", '"', "<", "é", "🙂", "\u2028", "{", "/"]
)


def _long(text: str) -> str:
    return text.replace("\n", "") * 3000 + "\n"


TEXT = st.one_of(st.text(ALPHABET, max_size=60), st.text(ALPHABET, max_size=8).map(_long))
OUTPUT = st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), TEXT), max_size=8)


@settings(deadline=None)
@given(OUTPUT)
def test_what_is_told_was_printed(output: list[tuple[str, str]]) -> None:
    printed = [(stream, text.encode()) for stream, text in output if text]
    block = spooled(*printed)
    lines, damaged = convert(block) if block else (b"", 0)
    assert damaged == 0
    # A character on the border of two parts is two halves to the engine.
    if b"\\ufffd" not in block and "\ufffd".encode() not in block:
        assert told(lines) == joined([(stream.encode(), text) for stream, text in printed])
    else:
        told(lines)


@settings(deadline=None)
@given(OUTPUT, st.integers(0, 100))
def test_blocks_may_be_cut_anywhere(output: list[tuple[str, str]], cut: int) -> None:
    entries = spooled(*((stream, text.encode()) for stream, text in output)).splitlines(keepends=True)
    first, second = b"".join(entries[:cut]), b"".join(entries[cut:])
    whole = convert(first + second)[0]
    parts = b"".join(convert(block)[0] for block in (first, second) if block)
    assert parts == whole
    assert b"".join(convert(entry)[0] for entry in entries) == whole
    assert not entries or module._convert_lines(first + second)[0] == whole


@pytest.mark.parametrize(
    ("printed", "way"),
    [
        ([("stdout", b"plain\n" * 5)], "_convert_ordinary"),
        ([("stderr", b"plain\n" * 5)], "_convert_ordinary"),
        ([("stdout", b"a\n"), ("stderr", b"b\n")], "_convert_block"),
        ([("stdout", b'{"json": "in \\"json\\"", "arrow": "=>"}\n' * 5)], "_convert_block"),
        ([("stdout", b"\x1b[1mcolour\x1b[0m\r\n")], "_convert_block"),
        ([("stdout", b"no end")], "_convert_block"),
        ([("stdout", b"C:\\n\n")], "_convert_block"),
        ([("stdout", b"ends with a backslash and an n \\n")], "_convert_block"),
    ],
)
def test_common_lines_go_a_fast_way(printed: list[tuple[str, bytes]], way: str) -> None:
    block = spooled(*printed)
    fast = getattr(module, way)(block)
    assert fast is not None
    assert fast == module._convert_lines(block)
    assert told(fast[0]) == joined([(stream.encode(), data) for stream, data in printed])


def test_invalid_text_is_cut_between_characters() -> None:
    block = spooled(("stdout", b"\xff" * PART + b"\n"))
    lines, _ = convert(block)
    texts = [line.split(b" ", 3)[3] for line in lines.splitlines()]
    assert all(len(text) <= PART for text in texts)
    assert b"".join(texts).decode() == "\ufffd" * PART


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_fields_of_other_options_are_passed_over(stream: str) -> None:
    entry = {"log": "text\n", "stream": stream, "attrs": {"tag": "x"}, "time": "2026-01-01T00:00:00Z"}
    line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
    assert convert(line * 3) == (f"2026-01-01T00:00:00Z {stream} F text\n".encode() * 3, 0)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\0\0\0",
        b"{",
        b"[]",
        b'{"log":"x\\n","stream":"stdout"}',
        b'{"log":"x\\n","stream":"stdin","time":"2026-01-01T00:00:00Z"}',
        b'{"log":1,"stream":"stdout","time":"2026-01-01T00:00:00Z"}',
        b'{"log":"x\\n","stream":"stdout","time":"not a time"}',
    ],
)
def test_damaged_lines_are_counted_and_the_rest_is_kept(bad: bytes) -> None:
    good = spooled(("stdout", b"good\n"))
    lines, damaged = convert(good + bad + b"\n" + good)
    assert (told(lines), damaged) == ([(b"stdout", b"good\ngood\n")], 1)


def test_a_line_behind_one_that_the_engine_did_not_live_to_end() -> None:
    good = spooled(("stdout", b"good\n"))
    torn = spooled(("stdout", b"torn\n"))[:-20]
    lines, damaged = convert(good + torn + good + good)
    assert (told(lines), damaged) == ([(b"stdout", b"good\n" * 3)], 1)
