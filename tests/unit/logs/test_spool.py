"""The engine's files as one stream: through renames, deletions, and numbers that the file system gives out again."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from crishim.engine.simulated.spool import append, rotate
from crishim.engine.values import LogSpool
from crishim.logs.spool import Spool, SpoolLost

_times = itertools.count(1_700_000_000_000_000_000, 1_234_567)


class Engine:
    """What writes to a spool."""

    def __init__(self, folder: Path, files: int = 4) -> None:
        self.path = folder / "c-json.log"
        self.files = files
        self.path.touch()

    def say(self, text: str) -> None:
        append(
            self.path, LogSpool(max_size=1 << 30, max_files=self.files), text.encode(), "stdout", lambda: next(_times)
        )

    def rotate(self) -> None:
        rotate(self.path, self.files)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path)


def take(spool: Spool) -> list[str]:
    """The texts that are to be read now."""
    found = []
    while block := spool.read():
        found += [line.split(b'"')[3].decode().removesuffix("\\n") for line in block.splitlines()]
        spool.advance()
    return found


def test_a_place_is_where_reading_goes_on(engine: Engine) -> None:
    spool = Spool(str(engine.path))
    assert take(spool) == []
    engine.say("one\ntwo\n")
    assert take(spool) == ["one", "two"]
    place = spool.place
    engine.say("three\n")
    assert take(Spool(str(engine.path), place)) == ["three"]
    spool.read()
    assert spool.place == place, "what was not taken is read again"
    assert take(spool) == ["three"]


def test_only_whole_lines(engine: Engine) -> None:
    engine.say("whole\n")
    whole = engine.path.read_bytes()
    engine.path.write_bytes(whole + whole[:20])
    spool = Spool(str(engine.path))
    assert take(spool) == ["whole"]
    engine.path.write_bytes(whole + whole)
    assert take(spool) == ["whole"]


@pytest.mark.parametrize("idle", [False, True])
def test_through_renames(engine: Engine, *, idle: bool) -> None:
    spool = Spool(str(engine.path))
    engine.say("0\n")
    assert take(spool) == ["0"]
    if idle:
        spool.close()
        assert not spool.is_open
    engine.say("1\n")
    for number in range(2, 5):
        engine.rotate()
        engine.say(f"{number}\n")
    assert take(spool) == ["1", "2", "3", "4"]
    engine.rotate()
    assert take(spool) == []
    engine.say("5\n")
    assert take(spool) == ["5"]


def test_a_new_spool_is_read_from_its_oldest_file(engine: Engine) -> None:
    for number in range(4):
        engine.say(f"{number}\n")
        engine.rotate()
    assert take(Spool(str(engine.path))) == ["1", "2", "3"], "the engine had deleted the first"


def test_the_file_that_is_read_may_be_deleted(engine: Engine) -> None:
    spool = Spool(str(engine.path))
    engine.say("0\n")
    assert spool.read()
    for number in range(1, 5):
        engine.rotate()
        spool.look()
        engine.say(f"{number}\n")
    assert take(spool) == ["0", "1", "2", "3", "4"]


def test_a_file_that_was_deleted_unread_is_told(engine: Engine) -> None:
    spool = Spool(str(engine.path))
    engine.say("0\n")
    assert take(spool) == ["0"]
    for number in range(1, 7):
        engine.rotate()
        spool.look()
        engine.say(f"{number}\n")
    with pytest.raises(SpoolLost):
        take(spool)
    assert take(spool) == ["3", "4", "5", "6"]


def test_what_was_deleted_while_nobody_read_is_told(engine: Engine) -> None:
    engine.say("0\n")
    spool = Spool(str(engine.path))
    take(spool)
    spool.close()
    for number in range(1, 6):
        engine.rotate()
        engine.say(f"{number}{'x' * 1000}\n")
    with pytest.raises(SpoolLost) as lost:
        take(spool)
    assert lost.value.args[0] > 900, "at least what a file holds"
    assert [text[0] for text in take(spool)] == ["2", "3", "4", "5"]


def test_another_file_with_the_number_of_the_one_that_was_read(engine: Engine) -> None:
    engine.say("before\nagain\n")
    spool = Spool(str(engine.path))
    take(spool)
    inode, offset, mark = spool.place
    spool.close()
    # What a file system makes of it, but for certain.
    engine.path.write_bytes(engine.path.read_bytes().replace(b"before", b"behind"))
    assert engine.path.stat().st_ino == inode
    with pytest.raises(SpoolLost):
        take(spool)
    assert take(spool) == ["behind", "again"]
    assert spool.place[:2] == (inode, offset)
    assert spool.place[2] != mark


def test_one_file_that_is_emptied(tmp_path: Path) -> None:
    engine = Engine(tmp_path, files=1)
    spool = Spool(str(engine.path))
    engine.say("one\ntwo\n")
    assert take(spool) == ["one", "two"]
    engine.rotate()
    engine.say("3\n")
    with pytest.raises(SpoolLost):
        take(spool)
    assert take(spool) == ["3"]


def test_long_lines_and_what_is_none(engine: Engine) -> None:
    engine.path.write_bytes(b'{"log":"' + b"x" * (1 << 19) + b'\\n"}\n')
    spool = Spool(str(engine.path))
    assert len(spool.read()) > 1 << 19
    spool.advance()
    with engine.path.open("ab") as file:
        file.write(b"\0" * (1 << 20))
    with pytest.raises(SpoolLost):
        spool.read()
    engine.say("after\n")
    assert take(spool)[-1] == "after"


def test_a_container_that_is_removed(engine: Engine) -> None:
    spool = Spool(str(engine.path))
    engine.say("last words\n")
    assert spool.read()
    engine.path.unlink()
    engine.path.parent.rmdir()
    assert take(spool) == ["last words"]
    spool.close()
    assert take(spool) == []
