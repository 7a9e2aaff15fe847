"""The pause program as process 1, and the embedded image in a real engine."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import pytest

from crishim.images.embedded import LABELS, make_archive

pytestmark = pytest.mark.root

NATIVE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def pause() -> Iterator[int]:
    """The host's pid of a pause program that is process 1 of a PID namespace."""
    program = resources.files("crishim.images.embedded").joinpath(f"pause.{NATIVE}.elf")
    with resources.as_file(program) as path:
        outer = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", str(path)])
        try:
            eventually(lambda: bool(children(outer.pid)))
            (pid,) = children(outer.pid)
            eventually(lambda: ignored(pid) & 1 == 1)  # HUP, the last it sets
            yield pid
        finally:
            outer.kill()
            outer.wait()


def ignored(pid: int) -> int:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn:"))
    return int(line.split()[1], 16)


def inside(pid: int, script: str) -> None:
    subprocess.run(["nsenter", f"--pid=/proc/{pid}/ns/pid", "sh", "-c", script], check=True, timeout=20)


def test_orphans_are_reaped(pause: int):
    inside(pause, "for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.0$i & exec true); done; (sleep 100 &)")
    eventually(lambda: len(children(pause)) == 1)  # those that ended are gone without a trace, zombies would be listed
    os.kill(children(pause)[0], signal.SIGKILL)
    eventually(lambda: children(pause) == [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_process_1_ends_when_told(pause: int, number: int):
    os.kill(pause, number)
    eventually(lambda: not Path(f"/proc/{pause}").exists())


@pytest.mark.engine
def test_the_engine_loads_and_runs_it(engine):
    architecture = engine.api.call("GET", "/info")["Architecture"]
    image = make_archive(architecture)
    for _ in range(2):  # loading again changes nothing
        engine.api.call("POST", "/images/load", {"quiet": "1"}, body=image.tar)
    (label,) = LABELS.items()
    filters = json.dumps({"label": ["=".join(label)]})
    found = engine.api.call("GET", "/images/json", {"filters": filters})
    assert [(entry["Id"], entry["RepoTags"]) for entry in found] == [(image.config_digest, [image.tag])]

    for pid_mode in ("", "host"):
        body = {
            "Image": image.tag,
            "HostConfig": {"NetworkMode": "none", "PidMode": pid_mode, "ReadonlyRootfs": True},
        }
        container = engine.api.call("POST", "/containers/create", json_body=body)["Id"]
        try:
            engine.api.call("POST", f"/containers/{container}/start")
            state = engine.api.call("GET", f"/containers/{container}/json")["State"]
            assert state["Running"]
            status = Path(f"/proc/{state['Pid']}/status").read_text()
            assert "Uid:\t65535\t65535\t65535\t65535" in status
            assert "Gid:\t65535\t65535\t65535\t65535" in status
            began = time.monotonic()
            engine.api.call("POST", f"/containers/{container}/stop", {"t": "30"})
            assert time.monotonic() - began < 20
            state = engine.api.call("GET", f"/containers/{container}/json")["State"]
            assert (state["Running"], state["ExitCode"]) == (False, 0)
        finally:
            engine.api.call("DELETE", f"/containers/{container}", {"force": "1"})
