"""Plugins whose runtime was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cni import strays
from cni.errors import StrayLeft


@pytest.fixture
def run() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(container_id: str, script: str) -> subprocess.Popen[bytes]:
        environment = {"PATH": os.environ["PATH"], "CNI_CONTAINERID": container_id}
        process = subprocess.Popen(["sh", "-c", script], env=environment, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.read(1) == b"\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_only_those_of_the_container_are_ended(run):
    ours, other, longer = (run(name, "echo; exec sleep 1000") for name in ("c1", "c2", "c12"))
    assert strays.end_strays("c1") == 1
    assert ours.wait(5) == -signal.SIGTERM
    assert (other.poll(), longer.poll()) == (None, None)
    assert strays.end_strays("c1") == 0


def test_children_are_found_and_the_stubborn_killed(run, monkeypatch):
    monkeypatch.setattr(strays, "_GRACE", 0.1)
    process = run("c1", "trap '' TERM; sleep 1000 & echo; wait; sleep 1000")
    assert strays.end_strays("c1") == 2
    assert process.wait(5) == -signal.SIGKILL


def test_what_they_start_at_their_end_is_ended(run):
    run("c1", "trap 'sleep 1000 & exit' TERM; echo; while :; do sleep 0.01; done")
    assert strays.end_strays("c1") >= 2  # the shell and what its trap began, and often a short sleep
    assert strays.end_strays("c1") == 0


def test_one_that_cannot_be_ended_is_told(run, monkeypatch):
    process = run("c1", "echo; exec sleep 1000")
    monkeypatch.setattr(strays, "_GRACE", 0.1)
    monkeypatch.setattr(
        signal, "pidfd_send_signal", lambda *_: None
    )  # as one in an endless wait in the kernel takes it
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(StrayLeft, match="1 processes that plugins left for c1"):
        strays.end_strays("c1")
    assert process.poll() is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_descriptor_is_left(run):
    before = len(os.listdir("/proc/self/fd"))
    run("c1", "echo; exec sleep 1000")
    strays.end_strays("c1")
    assert len(os.listdir("/proc/self/fd")) == before + 1  # the process's output


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """What a file system like /proc shows of a process; sleeps until its end."""
    process = subprocess.Popen(["sleep", "1000"], env={})
    folder = tmp_path / str(process.pid)
    folder.mkdir()
    (folder / "exe").symlink_to("/bin/sleep")
    for name in ("environ", "cmdline"):
        (folder / name).touch()
    yield process, folder
    process.kill()
    process.wait()


def test_one_in_the_midst_of_an_execve_is_waited_for(shown, monkeypatch):
    process, folder = shown

    def end(found: list[int], signals: list[signal.Signals], end=strays._end) -> int:
        left = end(found, signals)
        (folder / "exe").unlink()
        (folder / "environ").write_bytes(b"")
        return int(left)

    monkeypatch.setattr(time, "sleep", lambda _: (folder / "environ").write_bytes(b"CNI_CONTAINERID=c1\0"))
    monkeypatch.setattr(strays, "_end", end)
    assert strays.end_strays("c1", str(folder.parent)) == 1
    assert process.wait(5) == -signal.SIGTERM


def test_those_that_always_come_again_are_told(shown):
    process, folder = shown
    (folder / "environ").write_bytes(b"CNI_CONTAINERID=c1\0")
    with pytest.raises(StrayLeft, match="start others again and again"):
        strays.end_strays("c1", str(folder.parent))
    assert process.wait(5) == -signal.SIGTERM


@pytest.mark.parametrize(("what", "sleeps"), [("no program", 0), ("arguments", 2), ("never", None)])
def test_one_that_has_no_environment_is_passed_over(shown, what, sleeps, monkeypatch):
    process, folder = shown
    slept: list[float] = []
    monkeypatch.setattr(strays, "_STARTS", 0.2)
    monkeypatch.setattr(time, "sleep", slept.append)
    if what == "no program":
        (folder / "exe").unlink()
    elif what == "arguments":
        (folder / "cmdline").write_bytes(b"sleep\0")
        monkeypatch.setattr(strays, "_STARTS", 60.0)
    assert strays.end_strays("c1", str(folder.parent)) == 0
    assert process.poll() is None
    assert len(slept) == sleeps if sleeps is not None else slept
