"""What CI runs, with a make that only says it did: what counts, what fails, and how it ends."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / ".ci" / "run"
PARTS = ("demo", "test", "matrix", "vm")
GOOD = {
    "demo": "echo a pod ran",
    "test": "echo '3 failed attempts'; echo '== 10 passed, 2 skipped, 1 xfailed in 61.02s (0:01:01) =='",
    "matrix": "echo '== 100 passed in 3s =='; echo '300 passed, 0 failed, 4 skipped, 50 xfailed'",
    "vm": "echo '== 7 passed, 1 warning in 9.1s =='; echo 'more words' >&2",
}
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a copy of the script with a make that does what ``changed`` says of a target, else what ``GOOD`` does."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(SCRIPT, tmp_path / ".ci" / "run")
    programs = tmp_path / "bin"
    programs.mkdir()

    def start(changed: Mapping[str, str] | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        cases = "".join(f"{target}) {script};;\n" for target, script in (GOOD | dict(changed or {})).items())
        make = programs / "make"
        make.write_text(f'#!/bin/bash\necho "$1 $CI" >> {tmp_path}/called\ncase $1 in\n{cases}esac\n')
        make.chmod(0o755)
        own = {name: value for name, value in os.environ.items() if not name.startswith("CRISHIM_CI_")}
        environment = own | {"PATH": f"{programs}:{os.environ['PATH']}"} | more
        return subprocess.run(
            [tmp_path / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False, timeout=60
        )

    return start


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout.splitlines()[-1]


def called(tmp_path: Path) -> list[str]:
    return (tmp_path / "called").read_text().splitlines()


def test_all_parts_run_in_ci_and_are_summed(run: Run, tmp_path: Path) -> None:
    done = run()
    assert (done.returncode, last_line(done)) == (0, "317 passed, 0 failed, 57 skipped")
    assert called(tmp_path) == [f"{target} true" for target in PARTS]
    assert "more words\n" in done.stdout


def test_parts_are_chosen(run: Run, tmp_path: Path) -> None:
    done = run(CRISHIM_CI_PARTS="demo test")
    assert (done.returncode, last_line(done)) == (0, "10 passed, 0 failed, 3 skipped")
    assert called(tmp_path) == ["demo true", "test true"]
    done = run(CRISHIM_CI_PARTS="test drive")
    assert (done.returncode, last_line(done)) == (1, "10 passed, 1 failed, 3 skipped")


@pytest.mark.parametrize(
    ("target", "script", "sums"),
    [
        ("demo", "exit 1", "317 passed, 1 failed, 57 skipped"),
        ("test", "echo '8 passed, 2 failed, 3 errors in 1s'; exit 1", "315 passed, 5 failed, 54 skipped"),
        ("test", "echo '1 error in 0.1s'; exit 1", "307 passed, 1 failed, 54 skipped"),
        ("test", "echo '10 passed in 1s'; echo 'left on the machine'; exit 1", "317 passed, 1 failed, 54 skipped"),
        ("matrix", "echo '3 passed, 1 failed, 0 skipped, 0 xfailed'; exit 1", "20 passed, 1 failed, 3 skipped"),
        ("matrix", "echo '3 passed, 1 failed, 0 skipped, 0 xfailed'", "20 passed, 1 failed, 3 skipped"),
        ("vm", "echo 'cannot install qemu' >&2; exit 1", "310 passed, 1 failed, 57 skipped"),
        ("vm", "true", "310 passed, 1 failed, 57 skipped"),
    ],
)
def test_a_part_that_fails_or_does_not_run_fails_all_and_the_others_run(
    target: str, script: str, sums: str, run: Run, tmp_path: Path
) -> None:
    done = run({target: script})
    assert (done.returncode, last_line(done)) == (1, sums)
    assert called(tmp_path) == [f"{target} true" for target in PARTS]


@pytest.mark.parametrize("target", ["test", "matrix", "vm"])
def test_a_part_without_counts_is_named(target: str, run: Run) -> None:
    done = run({target: "echo 'no such target'; exit 2"})
    assert f"== {target}: did not run: it printed no counts\n" in done.stdout
    assert done.returncode == 1


def test_each_part_has_its_own_limit(run: Run, tmp_path: Path) -> None:
    """A timeout that lets no time pass: it says what it was told, and the second part is too late."""
    timeout = tmp_path / "bin" / "timeout"
    timeout.write_text('#!/bin/bash\necho "limit $2 $4"; shift 2; "$@"; [ "$2" != test ] || exit 124\n')
    timeout.chmod(0o755)
    done = run(CRISHIM_CI_SLACK="3")
    limits = [line for line in done.stdout.splitlines() if line.startswith("limit ")]
    assert limits == ["limit 900 demo", "limit 2700 test", "limit 2700 matrix", "limit 3600 vm"]
    assert "== test: ended after 2700 s\n" in done.stdout
    assert (done.returncode, last_line(done)) == (1, "317 passed, 1 failed, 57 skipped")


def test_what_runs_too_long_is_ended(run: Run) -> None:
    done = run({"test": "echo '1 passed in 1s'; sleep 4717"}, CRISHIM_CI_SLACK="1/900")
    assert "== test: ended after 1 s\n" in done.stdout
    assert done.returncode == 1
