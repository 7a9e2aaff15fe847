"""A world ends with everything in it, whatever dies first, and leaves neither folder nor cgroup.

These run worlds within this one: the outer process of each is a child of the test.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.env import cgroups, processes, world
from tests.env.cache import ROOT

SLEEPER = "trap 'echo asked; exit 9' INT; sleep 4711 & setsid sleep 4712 & echo ready; wait"


def start(script: str) -> subprocess.Popen[str]:
    """A world of its own within this one: the variable that says we are in one is not passed on."""
    environment = os.environ | {"CRISHIM_TEST_PARENT": os.environ["TMPDIR"]}
    del environment[world.VARIABLE]
    command = [sys.executable, "-m", "tests.env.world", "--", "bash", "-c", script]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def sleepers() -> list[str]:
    lines = [processes.command_line(pid) for pid in processes.pids()]
    return [line for line in lines if line in {"sleep 4711", "sleep 4712"}]


def folders() -> set[Path]:
    return set(Path(os.environ["TMPDIR"]).glob(f"{world.PREFIX}*"))


def world_cgroups() -> list[Path]:
    return [path for path in cgroups.below_mounts() if path.name.startswith(world.PREFIX)]


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        os.sched_yield()
        signal.sigtimedwait([], 0.01)
    pytest.fail("waited 10 s in vain")


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("code", [0, 7])
def test_the_exit_status_is_the_commands(code: int) -> None:
    before = folders()
    ended = start(f"sleep 4711 & exit {code}")
    ended.communicate()
    assert ended.returncode == code
    assert not sleepers()
    assert folders() <= before


@pytest.mark.usefixtures("nothing_left")
def test_a_command_ended_by_a_signal() -> None:
    ended = start("kill -SEGV $$")
    ended.communicate()
    assert ended.returncode == 128 + signal.SIGSEGV


@pytest.mark.usefixtures("nothing_left")
def test_sigterm_asks_the_command_to_end() -> None:
    before = folders()
    running = start(SLEEPER)
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    running.terminate()
    assert running.communicate()[0] == "asked\n"
    assert running.returncode == 9
    assert not sleepers()
    assert folders() <= before


@pytest.mark.usefixtures("nothing_left")
def test_a_killed_world_is_swept_by_the_next() -> None:
    before = folders()
    running = start(SLEEPER)
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    mine = folders() - before
    wait_until(lambda: len(sleepers()) == 2)
    running.kill()
    running.communicate()
    wait_until(lambda: not sleepers())
    assert mine <= folders(), "nobody could remove it yet"
    start("true").communicate()
    assert not mine & folders()
    assert not world_cgroups()


@pytest.mark.usefixtures("nothing_left")
def test_what_a_world_leaves_on_the_machine_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is judged like any command (``test_tidiness``)."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("CRISHIM_TEST_PARENT", os.environ["TMPDIR"])
    monkeypatch.delenv(world.VARIABLE)
    command = [sys.executable, "-m", "tests.env.world", "--", "sh", "-c", "touch ~/forgotten"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        f"left on the machine meanwhile:\n  files: {tmp_path}/forgotten\n",
    )


IN_A_CONTAINER = """
import os, subprocess, sys
from pathlib import Path
from tests.env import cgroups, world

root = next(place.mount_point for place in cgroups.hierarchies("x") if place.unified)
names = (root / "cgroup.controllers").read_text().split()
for name in names:
    (root / "cgroup.subtree_control").write_text("-" + name)
for pid in cgroups.pids(root / cgroups.LEAF):
    (root / "cgroup.procs").write_text(str(pid))
before = cgroups.pids(root)
del os.environ[world.VARIABLE]
show = f"cat {root}/cgroup.controllers {root}/cgroup.subtree_control"
command = [sys.executable, "-m", "tests.env.world", "--", "sh", "-c", show]
shown = subprocess.run(command, capture_output=True, text=True)
after = (cgroups.pids(root), (root / "cgroup.subtree_control").read_text().split(), cgroups.below_mounts())
print([shown.stdout.split() == names * 2, after == (before, [], [root / cgroups.LEAF])], shown.stderr)
"""
"""What a container's cgroup looks like: the root that one sees is no true root, and holds processes."""


@pytest.mark.usefixtures("nothing_left")
def test_processes_that_stand_in_the_way_of_controllers_are_put_back() -> None:
    unified = [place for place in cgroups.hierarchies("x") if place.unified]
    if not any((place.mount_point / "cgroup.controllers").read_text().strip() for place in unified):
        pytest.skip("all of this kernel's cgroup controllers are used by version 1")
    running = start(f"exec {sys.executable} - <<'END'\n{IN_A_CONTAINER}\nEND\n")
    assert running.communicate()[0] == "[True, True] \n"
