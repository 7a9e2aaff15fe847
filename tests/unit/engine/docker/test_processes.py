"""Which processes belong to an exec, and what /proc says of one."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from crishim.engine.docker.processes import (
    Process,
    _hold_same,
    family,
    hang_up,
    in_container,
    kill_family,
    read_process,
)


def process(pid: int, parent: int, session: int) -> Process:
    return Process(pid, parent, session, started=pid * 10)


SHIM, MAIN, EXEC = 10, 20, 30
CONTAINER = [process(SHIM, 1, SHIM), process(MAIN, SHIM, MAIN), process(21, MAIN, MAIN), process(EXEC, SHIM, EXEC)]


def pids(found: list[Process]) -> set[int]:
    return {p.pid for p in found}


def test_descendants_and_nobody_else() -> None:
    tree = [*CONTAINER, process(31, EXEC, EXEC), process(32, 31, EXEC)]
    assert pids(family(tree, {EXEC}, set())) == {EXEC, 31, 32}


def test_whose_parent_has_ended_is_found_by_the_session() -> None:
    tree = [*CONTAINER, process(31, MAIN, EXEC), process(32, 31, 32), process(33, MAIN, 32)]
    known, sessions = {EXEC}, set[int]()
    assert pids(family(tree, known, sessions)) == {EXEC, 31, 32, 33}
    assert known == {EXEC, 31, 32, 33}
    assert sessions == {EXEC, 32}


def test_sessions_are_remembered_between_looks() -> None:
    known, sessions = {EXEC}, set[int]()
    family([*CONTAINER, process(31, EXEC, 31)], known, sessions)
    later = [*CONTAINER, process(40, MAIN, 31)]
    assert 40 in pids(family(later, known, sessions))


def write_stat(folder: Path, pid: int, state: str, name: str = "sh") -> None:
    place = folder / str(pid)
    place.mkdir()
    rest = " ".join(["0"] * 15)
    (place / "stat").write_text(f"{pid} ({name}) {state} 7 8 9 {rest} 12345 0 0\n")
    (place / "cgroup").write_text("3:pids:/docker/abcdef0123\n")


def test_read_process(tmp_path: Path) -> None:
    write_stat(tmp_path, 5, "S", name="a) R 1 (b")
    write_stat(tmp_path, 6, "Z")
    assert read_process(5, tmp_path) == Process(5, 7, 9, 12345)
    assert read_process(6, tmp_path) is None, "a corpse"
    assert read_process(7, tmp_path) is None


def test_in_container(tmp_path: Path) -> None:
    write_stat(tmp_path, 5, "S")
    assert in_container(5, "abcdef0123", tmp_path)
    assert not in_container(5, "fedcba", tmp_path)
    assert not in_container(6, "abcdef0123", tmp_path)


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is nobody's exec; it ends with its input."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_who_got_an_execs_number_is_left_alone(stranger: subprocess.Popen[bytes]) -> None:
    assert kill_family(stranger.pid, "abcdef0123") == 0
    hang_up(stranger.pid, "abcdef0123")
    now = read_process(stranger.pid)
    assert now is not None
    held = dict[int, int]()
    assert not _hold_same(dataclasses.replace(now, started=now.started - 1), held)
    assert not held
    assert stranger.poll() is None
