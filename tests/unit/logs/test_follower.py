"""From spool to log across crashes: whatever of a block was written, the log holds each line once."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest

from crishim.engine.simulated.spool import append, rotate
from crishim.engine.values import LogSpool
from crishim.logs.follower import Counters, Follower, Progress, search
from crishim.logs.logfile import LogFile
from crishim.logs.spool import Spool


class Life:
    """A container's output, and writers that come and go."""

    def __init__(self, folder: Path) -> None:
        self.spool = folder / "engine" / "c-json.log"
        self.spool.parent.mkdir()
        self.log = folder / "logs" / "0.log"
        self.counters = Counters()
        self.follower = self.new()
        self._now = itertools.count(1_700_000_000_000_000_000, 1000)

    def new(self) -> Follower:
        file = LogFile(str(self.log.parent), self.log.name)
        return Follower("c1", Spool(str(self.spool)), file, self.counters)

    def say(self, text: str) -> None:
        limits = LogSpool(max_size=1 << 30, max_files=100)
        append(self.spool, limits, text.encode(), "stdout", lambda: next(self._now))

    def move(self) -> None:
        while self.follower.pump():
            pass

    def restart(self, progress: Progress | None) -> None:
        self.follower.close()
        self.follower = self.new()
        if progress is None:
            self.follower.find_place()
        else:
            self.follower.spool = Spool(str(self.spool), progress[0])
            self.follower.resume(progress)

    def said(self) -> str:
        """What the log and its rotated parts say, the oldest part first."""
        parts = [*sorted(self.log.parent.glob("0.log.*")), self.log]
        return "".join(
            line.split(" ", 3)[3] + "\n" for part in parts if part.exists() for line in part.read_text().splitlines()
        )


@pytest.fixture
def life(tmp_path: Path) -> Life:
    life = Life(tmp_path)
    life.follower.begin()
    return life


def test_progress_is_where_another_writer_goes_on(life: Life) -> None:
    life.say("one\n")
    life.move()
    progress = life.follower.progress
    life.restart(progress)
    life.say("two\n")
    life.move()
    life.restart(progress)  # as if nobody had noted the second
    life.move()
    life.say("three\n")
    life.move()
    assert life.said() == "one\ntwo\nthree\n"
    assert life.counters.repeated == 0


@pytest.mark.parametrize("known", [True, False])
def test_a_block_of_which_a_part_was_written(life: Life, *, known: bool) -> None:
    """Cut at each byte: a kill may end a write anywhere."""
    life.say("first\n")
    life.move()
    progress = life.follower.progress
    start = life.log.stat().st_size
    life.say("second\nthird\n")
    life.move()
    whole = life.log.read_bytes()
    for end in range(start, len(whole) + 1):
        life.log.write_bytes(whole[:end])
        life.restart(progress if known else None)
        life.move()
        assert life.log.read_bytes() == whole, end
    assert life.counters.repeated == 0


def test_many_blocks_that_nobody_noted(life: Life) -> None:
    progress = life.follower.progress
    for number in range(8):
        life.say(f"{number} {'x' * 90}\n" * 1000)
        if number == 4:
            rotate(life.spool, 100)
    life.move()
    before = life.log.read_bytes()
    life.restart(progress)
    life.move()
    assert life.log.read_bytes() == before
    life.say("end\n")
    life.move()
    assert life.said().endswith("end\n")
    assert life.counters.as_dict()["repeated"] == 0


def test_killed_between_rename_and_reopen(life: Life) -> None:
    life.say("one\n")
    life.move()
    progress = life.follower.progress
    life.log.rename(f"{life.log}.1")
    life.say("two\n")
    life.move()
    life.restart(progress)
    assert not life.log.exists()
    life.say("three\n")
    life.move()
    assert life.said() == "one\ntwo\nthree\n"
    life.follower.reopen()
    life.say("four\n")
    life.move()
    assert life.log.read_text().endswith(" four\n")
    assert life.said() == "one\ntwo\nthree\nfour\n"


@pytest.mark.parametrize("more", ["", "three\n"])
def test_reopened_and_nobody_lived_to_note_it(life: Life, more: str) -> None:
    life.say("one\n")
    life.move()
    progress = life.follower.progress
    life.say("two\n")
    life.move()
    life.log.rename(f"{life.log}.1")
    life.follower.reopen()
    life.say(more)
    life.move()
    life.restart(progress)
    life.say("four\n")
    life.move()
    assert life.said() == f"one\ntwo\n{more}four\n"
    assert life.log.read_text().endswith(" four\n")
    assert life.counters.repeated == 0


def test_a_log_that_somebody_else_changed_loses_nothing(life: Life) -> None:
    life.say("one\n")
    life.move()
    progress = life.follower.progress
    life.say("two\n")
    life.move()
    life.log.write_bytes(life.log.read_bytes().replace(b"two", b"2!!"))
    life.restart(progress)
    life.move()
    assert life.said() == "one\n2!!\ntwo\n"
    assert life.counters.repeated == 1
    assert "by somebody else" in life.follower.notes[0]


def test_a_log_that_was_deleted_goes_on_in_a_new_one(life: Life) -> None:
    life.say("one\n")
    life.move()
    progress = life.follower.progress
    life.log.unlink()
    life.restart(progress)
    life.say("two\n")
    life.move()
    assert life.said() == "two\n"


def test_without_progress_equal_lines_are_told_apart_by_what_is_before_them(life: Life) -> None:
    """Parts of a long line have one time and may be the same."""
    long = "x" * 16384
    life.say(long * 6 + "\n")
    life.move()
    whole = life.log.read_bytes()
    part = whole.index(b"\n") + 1
    for parts in range(7):
        life.log.write_bytes(whole[: part * parts])
        life.restart(None)
        life.move()
        if parts <= 3:  # the search looks at 64 KiB
            assert life.log.read_bytes() == whole, parts
    life.restart(None)
    life.move()


def test_lines_of_another_container_before_ours(life: Life) -> None:
    life.log.write_bytes(b"2020-01-01T00:00:00Z stdout F of an earlier attempt\n")
    life.restart(None)
    life.say("ours\n")
    life.move()
    assert life.said() == "of an earlier attempt\nours\n"


def test_lines_that_the_spool_has_no_more(life: Life) -> None:
    for number in range(3):
        life.say(f"{number}\n")
        life.move()
        rotate(life.spool, 100)
    life.say("3\n")
    for path in life.spool.parent.glob("*.[23]"):
        path.unlink()
    found = search(str(life.spool), life.log.read_bytes())
    assert found is not None
    assert found[2] is True
    life.restart(None)
    life.move()
    assert life.said() == "0\n1\n2\n3\n"


@pytest.mark.parametrize("reopened", [False, True])
def test_a_noted_place_that_is_gone_from_the_spool(life: Life, *, reopened: bool) -> None:
    """What was written since is not written again, and if that reaches as far as the spool, nothing is missing."""
    life.say("0\n")
    life.move()
    progress = life.follower.progress
    for number in range(1, 4):
        rotate(life.spool, 100)
        life.say(f"{number}\n")
        life.move()
        if reopened and number == 2:
            life.log.rename(f"{life.log}.1")
            life.follower.reopen()
    for path in life.spool.parent.glob("*.[23]"):
        path.unlink()
    life.restart(progress)
    life.say("4\n")
    life.move()
    assert life.said() == "0\n1\n2\n3\n4\n"
    assert life.counters.lost_times == 0
    life.follower.close()
    for _ in range(2):
        rotate(life.spool, 100)
        life.say("5\n")
    for path in life.spool.parent.glob("*.[2-9]"):
        path.unlink()
    life.restart(progress)
    life.move()
    assert life.said() == "0\n1\n2\n3\n4\n5\n5\n"
    assert life.counters.lost_times == 1, "what follows is younger than all that was written: there may be a gap"


def test_damaged_lines_are_told(life: Life) -> None:
    life.say("good\n")
    with life.spool.open("ab") as file:
        file.write(b"\0\0\0\n")
    life.say("good\n")
    life.move()
    assert life.said() == "good\ngood\n"
    assert life.counters.damaged_lines == 1
    assert "1 lines in" in life.follower.notes[0]


def test_random_lives(tmp_path: Path) -> None:
    """Random output, restarts with older and newer progress or none, torn ends, rotations of both sides."""
    for seed in range(60):
        rng = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        life = Life(folder)
        life.follower.begin()
        progress = life.follower.progress
        printed, rotations = "", 0
        for step in range(40):
            action = rng.random()
            if action < 0.5:
                text = "".join(f"{step} {'y' * rng.choice((0, 3, 80, 20_000))}\n" for _ in range(rng.randrange(6)))
                life.say(text)
                printed += text
            elif action < 0.6:
                rotate(life.spool, 100)
            elif action < 0.75:
                life.move()
                if rng.random() < 0.5:
                    progress = life.follower.progress
            elif action < 0.85:
                life.log.rename(f"{life.log}.{rotations:04}")
                rotations += 1
                life.follower.reopen()
                progress = life.follower.progress
            else:
                size = life.log.stat().st_size
                noted = max(progress[2], 0) if progress[1] == life.log.stat().st_ino else size
                with life.log.open("ab") as file:
                    file.truncate(rng.randint(min(noted, size), size))
                life.restart(progress)
        life.move()
        text = "".join(
            line.split(" ", 3)[3] + ("\n" if " F " in line[:60] else "")
            for part in [*sorted(life.log.parent.glob("0.log.*")), life.log]
            for line in part.read_text().splitlines()
        )
        assert text == printed, json.dumps({"seed": seed})
        assert life.counters.repeated == life.counters.lost_times == 0, seed
        life.follower.close()
