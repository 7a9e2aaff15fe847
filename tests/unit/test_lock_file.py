"""One crishim for an engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from crishim.lock_file import EngineClaim, Taken


def test_the_second_server_of_an_engine_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var").symlink_to("run")
    with EngineClaim(tmp_path / "run" / "docker.sock"):
        with pytest.raises(Taken, match=rf"var/docker.sock is served by process {os.getpid()}; stop it") as taken:
            EngineClaim(tmp_path / "var" / "docker.sock").__enter__()
        assert "\n" not in str(taken.value)
        with EngineClaim(tmp_path / "run" / "another.sock"):
            pass
    assert list((tmp_path / "run").iterdir()) == []
    with EngineClaim(tmp_path / "var" / "docker.sock"):
        pass


def test_a_killed_servers_engine_is_free(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from crishim.lock_file import EngineClaim\n"
        "with EngineClaim(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "docker.sock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(Taken, match=f"process {other.pid};"), EngineClaim(tmp_path / "docker.sock"):
            pass
        other.kill()
    with EngineClaim(tmp_path / "docker.sock"):
        pass


def test_an_engine_that_is_not_there_yet_is_not_guarded(tmp_path: Path) -> None:
    with EngineClaim(tmp_path / "none" / "docker.sock"):
        assert list(tmp_path.iterdir()) == []
