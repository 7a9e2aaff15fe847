"""What no judge has judged does not pass for judged: without tools, on engines that nobody knows, for skipped specs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance import engines, matrix, test_critest, tools, verdict
from tests.conformance.critest import Spec
from tests.conformance.results import EngineIdentity
from tests.conformance.verdict import Judged
from tests.env.cache import ROOT


@pytest.mark.parametrize("file", ["test_crictl.py", "test_critest.py"])
@pytest.mark.parametrize(("ci", "status"), [("true", 1), ("", 0)])
def test_a_session_without_tools_says_so_and_fails_in_ci(file: str, ci: str, status: int, tmp_path: Path) -> None:
    """With an empty cache, where nothing is built."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"tests/conformance/{file}"]
    environment = os.environ | {"CRISHIM_CACHE": str(tmp_path), "CI": ci}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout
    summary = done.stdout[done.stdout.index(" conformance ===") :]
    assert "\nconformance: not run (crictl is not built" in summary or "\nconformance: not run (critest is" in summary
    assert " passed" not in summary


@pytest.mark.parametrize(("ci", "status"), [("true", 1), ("", 0)])
def test_a_matrix_without_tools_says_so_and_fails_in_ci(
    ci: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise tools.ToolsMissingError("no Go")

    monkeypatch.setattr(tools, "make_ready", missing)
    monkeypatch.setattr(matrix, "judge", lambda engine, arguments: matrix.Outcome(engine.key))
    monkeypatch.setenv("CI", ci)
    assert matrix.main(["--engine", "28"]) == status
    assert "conformance: not run (no Go)\n" in capsys.readouterr().out


def judged(engine: str, state: str) -> Judged:
    expected = verdict.parse({"engines": ["20"], "group": [{"reason": "r", "specs": ["listed"]}]})
    specs = {name: Spec(name, state, 1.0, "its own words") for name in ("listed", "unlisted")}
    return Judged(EngineIdentity(engine, f"{engine}.1.2", "1.99"), specs, expected)


@pytest.mark.parametrize("state", ["failed", "skipped"])
def test_what_is_skipped_counts_as_failed_unless_listed(state: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=f"^{state}: its own words$"):
        test_critest.test_spec("unlisted", judged("20", state))
    with pytest.raises(pytest.xfail.Exception, match=f"^r; {state}: its own words$"):
        test_critest.test_spec("listed", judged("20", state))


@pytest.mark.parametrize("state", ["failed", "skipped"])
def test_on_an_engine_of_unknown_major_specs_are_reported_only(state: str) -> None:
    for name in ("listed", "unlisted"):
        with pytest.raises(pytest.xfail.Exception, match=rf"^engine 29\.1\.2 is not judged; {state}: its own words$"):
            test_critest.test_spec(name, judged("29", state))
    test_critest.test_spec("listed", judged("29", "passed"))


def test_the_contract_and_the_walk_decide_on_every_engine() -> None:
    assert matrix.JUDGES == ("tests/contract/test_engine.py", "tests/conformance")
    assert [engine.key for engine in engines.MATRIX] == ["system", "26", "28", "28-containerd"]
