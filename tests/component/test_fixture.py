"""The fixture `cri_endpoint` in projects of others: the example, and what a test may do to its server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crishim.testing.endpoint import serve_endpoint

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "03-pytest-fixture"


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def test_the_example_runs() -> None:
    ran = run_pytest(EXAMPLE)
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr
    assert ran.returncode == 0


def test_each_test_has_its_own_server_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    (tmp_path / "test_it.py").write_text(
        """
import os, pathlib, pytest

@pytest.fixture
def crishim_flags():
    return ["--checkpoint", "memory", "--log-level", "debug"]

def note(cri_endpoint):
    with open("seen", "a") as seen:
        seen.write(f"{cri_endpoint.pid} {cri_endpoint.endpoint.removeprefix('unix://')}\\n")

def test_one(cri_endpoint):
    note(cri_endpoint)
    assert "checkpoints memory" in cri_endpoint.log_path.read_text()

def test_two(cri_endpoint):
    note(cri_endpoint)
    assert cri_endpoint.stop() == 0
    assert cri_endpoint.stop() == 0

def test_three(cri_endpoint):
    note(cri_endpoint)
    cri_endpoint.kill()
"""
    )
    ran = run_pytest(tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    seen = [line.split() for line in (tmp_path / "seen").read_text().splitlines()]
    assert len({pid for pid, _ in seen}) == len({path for _, path in seen}) == 3
    for pid, path in seen:
        assert not Path("/proc", pid).exists()
        assert not Path(path).parent.exists()


def test_an_engine_that_is_not_there_fails_the_test_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    (tmp_path / "test_it.py").write_text("def test_it(cri_endpoint): pass\n")
    ran = run_pytest(tmp_path, "--crishim-engine", "tcp://127.0.0.1:1")
    assert ran.returncode == 1
    assert "flag --engine: 'tcp://127.0.0.1:1' is not allowed" in ran.stdout


def test_settings_of_the_environment_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRISHIM_NETWORK", "nonsense")
    with serve_endpoint() as server:
        assert "network none" in server.log_path.read_text()
