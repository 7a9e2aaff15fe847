"""Many logs at one desk: what idle ones cost, and that what is wrong with one stays with it."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from crishim.engine.simulated.spool import append
from crishim.engine.values import LogSpool
from crishim.logs.desk import Desk
from crishim.logs.logfile import LogFile

_moments = itertools.count(1_700_000_000 * 10**9, 1000)


class Office:
    """A desk whose clock is turned by hand, and what was told at it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.now = 1000.0
        monkeypatch.setattr("crishim.logs.desk.time.monotonic", lambda: self.now)
        self.desk = Desk()
        self.told: list[dict[str, Any]] = []

    def spool(self, name: str) -> Path:
        return self.folder / "engine" / name / "json.log"

    def log(self, name: str) -> Path:
        return self.folder / "logs" / name

    def order(self, what: str, container_id: str, **more: Any) -> dict[str, Any]:
        self.desk.order({"n": 1, "do": what, "id": container_id, **more})
        self.work()
        return next(message for message in reversed(self.told) if message.get("n") == 1)

    def begin(self, name: str) -> dict[str, Any]:
        self.spool(name).parent.mkdir(parents=True, exist_ok=True)
        places = {"spool": str(self.spool(name)), "folder": str(self.folder / "logs"), "name": name}
        return self.order("begin", name, **places, at=None, new=True)

    def say(self, name: str, data: bytes) -> None:
        append(self.spool(name), LogSpool(), data, "stdout", lambda: next(_moments))

    def work(self) -> None:
        while self.desk.busy:
            self.desk.round()
        self.told += self.desk.take_told()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.desk.housekeep()
        self.work()

    def figures(self) -> dict[str, int]:
        return next(message["counters"] for message in reversed(self.told) if "counters" in message)


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    return Office(tmp_path, monkeypatch)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_an_idle_log_costs_a_descriptor_and_no_time(office: Office) -> None:
    before, names = descriptors(), [f"c{number}" for number in range(50)]
    for name in names:
        office.begin(name)
    assert descriptors() - before == 50
    assert office.desk.patience is None
    for name in names:
        office.say(name, b"one\n")
    office.desk.look_at_all()
    office.work()
    assert descriptors() - before == 100
    office.pass_time(3)
    assert descriptors() - before == 50, "the spools are closed"
    assert office.desk.patience is not None, "how far they are is to be told yet"
    office.pass_time(10)
    office.pass_time(3)
    assert office.desk.patience is None
    assert {message["id"] for message in office.told if "at" in message and "n" not in message} == set(names)
    for name in names:
        office.order("drop", name)
    assert descriptors() == before


def test_figures_are_told_when_they_change(office: Office) -> None:
    office.begin("c1")
    office.say("c1", b"one\n")
    office.desk.look_at_all()
    office.work()
    office.pass_time(0.5)
    figures = office.figures()
    assert figures["written_bytes"] == office.log("c1").stat().st_size
    assert figures["read_bytes"] == office.spool("c1").stat().st_size
    assert figures["lag_bytes"] == 0
    count = sum("counters" in message for message in office.told)
    office.pass_time(0.5)
    assert sum("counters" in message for message in office.told) == count


@pytest.mark.parametrize("deleted", [False, True])
def test_what_is_not_written_of_a_removed_container_is_counted(
    office: Office, monkeypatch: pytest.MonkeyPatch, *, deleted: bool
) -> None:
    """A log for which there was no room, until the engine took the spool away; a drop alone loses nothing."""
    office.begin("c1")
    office.begin("other")
    write = LogFile.write
    # A full disk, for one of them.
    monkeypatch.setattr(LogFile, "write", lambda file, data: 0 if file.name == "c1" else write(file, data))
    office.say("c1", b"never to be read\n")
    office.say("other", b"one\n")
    office.desk.look_at_all()
    office.work()
    office.pass_time(0.5)
    assert office.figures()["lag_bytes"] == office.spool("c1").stat().st_size
    size = office.spool("c1").stat().st_size
    if deleted:
        shutil.rmtree(office.spool("c1").parent)
    office.order("drop", "c1")
    notes = [message["note"] for message in office.told if "note" in message and "was removed" in message["note"]]
    assert len(notes) == deleted
    assert office.figures()["lost_bytes"] == (size if deleted else 0)
    office.pass_time(0.5)
    assert office.figures()["lag_bytes"] == 0
    assert office.log("other").read_bytes().endswith(b" stdout F one\n")


def test_an_order_that_is_none_is_answered(office: Office) -> None:
    assert "error" in office.order("reopen", "missing")
    assert "error" in office.order("begin", "c1")
    assert office.order("late", "missing") == {"n": 1, "at": None}
