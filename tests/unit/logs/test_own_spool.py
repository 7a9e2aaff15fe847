"""A spool that crishim fills: what comes twice is in it once, and it is bounded."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from crishim.engine.values import LogEntry, LogSpool
from crishim.logs.convert import convert
from crishim.logs.own_spool import OwnSpool

SECOND = 10**9
START = 1_700_000_000 * SECOND


@pytest.fixture
def spool(tmp_path: Path) -> OwnSpool:
    return make(tmp_path)


def make(folder: Path, **limits: int) -> OwnSpool:
    return OwnSpool(folder / "logs", "c1", LogSpool(**({"max_size": 1 << 20, "max_files": 3} | limits)))


def said(spool: OwnSpool) -> list[str]:
    files = sorted(spool.folder.iterdir(), key=lambda file: file.suffix, reverse=True)
    files = [file for file in files if file.suffix != ".log"] + [spool.path]
    return [json.loads(line)["log"] for file in files for line in file.read_bytes().splitlines()]


def line(number: int, *, time: int | None = None) -> LogEntry:
    return LogEntry(START + number if time is None else time, "stdout", b"%d\n" % number)


def test_it_is_in_the_engines_form(spool: OwnSpool) -> None:
    assert spool.open() == 0
    texts = [b'a\tb "q" \\ <&>\n', b"no end", "é 🙂\n".encode(), b"\xff\n", b"\x00\x1b\n"]
    spool.append([LogEntry(START, "stderr" if n % 2 else "stdout", text) for n, text in enumerate(texts)])
    lines, damaged = convert(spool.path.read_bytes())
    assert damaged == 0
    moment = b"2023-11-14T22:13:20.000000000Z "
    assert lines.splitlines() == [
        moment + b'stdout F a\tb "q" \\ <&>',
        moment + b"stderr P no end",
        moment + "stdout F é 🙂".encode(),
        moment + "stderr F \ufffd".encode(),
        moment + b"stdout F \x00\x1b",
    ]
    assert (spool.path.stat().st_mode & 0o777, spool.folder.stat().st_mode & 0o777) == (0o600, 0o700)


def test_what_comes_again_is_passed_over(tmp_path: Path, spool: OwnSpool) -> None:
    spool.open()
    entries = [line(number, time=START + number * SECOND // 4) for number in range(20)]
    same = LogEntry(entries[-1].time, "stdout", b"x" * 16384)
    spool.append([*entries, same, same])
    again = make(tmp_path)
    since = again.open()
    assert since == entries[-1].time - SECOND
    more = LogEntry(START + 9 * SECOND, "stdout", b"more\n")
    again.append([entry for entry in [*entries, same, same, same] if entry.time >= since])
    again.append([more])
    again.append([more])
    assert said(again) == [*(f"{n}\n" for n in range(20)), *["x" * 16384] * 3, "more\n", "more\n"]


def test_a_line_that_a_crash_cut_comes_again(tmp_path: Path, spool: OwnSpool) -> None:
    spool.open()
    spool.append([line(1), line(2)])
    whole = spool.path.read_bytes()
    for end in range(len(whole)):
        spool.path.write_bytes(whole[:end])
        again = make(tmp_path)
        since = again.open()
        again.append([entry for entry in (line(1), line(2)) if entry.time >= since])
        assert again.path.read_bytes() == whole, end


def test_it_is_bounded(tmp_path: Path) -> None:
    spool = make(tmp_path, max_size=1000, max_files=3)
    spool.open()
    for number in range(200):
        spool.append([line(number)])
        again = make(tmp_path, max_size=1000, max_files=3)
        assert again.open() >= START
        again.append([line(number)])
    assert sorted(file.name for file in spool.folder.iterdir()) == [f"c1-json.log{n}" for n in ("", ".1", ".2")]
    assert sum(file.stat().st_size for file in spool.folder.iterdir()) < 3200
    kept = said(spool)
    assert kept == [f"{n}\n" for n in range(200 - len(kept), 200)]
    spool.remove()
    spool.remove()
    assert not spool.folder.exists()


def test_the_clock_was_set_back(tmp_path: Path, spool: OwnSpool) -> None:
    spool.open()
    first = [line(number, time=START + number * SECOND // 10) for number in range(20)]
    then = [line(number, time=START - 3600 * SECOND + number) for number in range(20, 25)]
    spool.append([*first, *then[:3]])
    again = make(tmp_path)
    since = again.open()
    again.append([entry for entry in [*first, *then] if entry.time >= since])
    assert said(again) == [f"{n}\n" for n in range(25)]


def test_random_ends(tmp_path: Path) -> None:
    """Two streams slightly out of order, an end anywhere, asked for again from where `open` says: each entry once."""
    for seed in range(30):
        rng = random.Random(seed)
        entries = []
        for number in range(rng.randrange(1, 200)):
            moment = START + number * 10_000_000 + rng.randrange(20_000_000)
            entries.append(LogEntry(moment, rng.choice(("stdout", "stderr")), b"%d\n" % rng.randrange(3)))
        spool, at = make(tmp_path / str(seed), max_size=rng.choice((500, 1 << 20)), max_files=100), 0
        while at < len(entries):
            since = spool.open()
            at = rng.randint(at, len(entries))
            spool.append([entry for entry in entries[:at] if entry.time >= since])
            if spool.path.exists() and (size := spool.path.stat().st_size):
                with spool.path.open("r+b") as file:
                    file.truncate(rng.randint(max(size - 100, 0), size))
            spool = make(tmp_path / str(seed), max_size=spool._limits.max_size, max_files=100)
            if rng.random() < 0.2:
                break
        since = spool.open()
        spool.append([entry for entry in entries if entry.time >= since])
        files = sorted(spool.folder.iterdir(), key=lambda file: -int(file.suffix[1:].replace("log", "0")))
        kept = [json.loads(line)["log"].encode() for file in files for line in file.read_bytes().splitlines()]
        assert kept == [entry.text for entry in entries], seed
