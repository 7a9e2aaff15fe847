"""Plugins whose runtime was killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from cni import strays


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


def test_no_descriptor_is_left(run):
    before = len(os.listdir("/proc/self/fd"))
    run("c1", "echo; exec sleep 1000")
    strays.end_strays("c1")
    assert len(os.listdir("/proc/self/fd")) == before + 1  # the process's output
