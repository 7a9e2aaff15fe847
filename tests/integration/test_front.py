"""The runtime front takes out what this kernel denies, and changes nothing else."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.env import front

CAPABILITIES = ["CAP_CHOWN", "CAP_SYS_RESOURCE", "CAP_KILL"]
LOOKALIKES = ["CAP_SYS_RESOURCE", '"oomScoreAdj":-1', '"CAP_SYS_RESOURCE"', "\\", '\\"', "é\n"]


def process(score: int, capabilities: list[str]) -> dict[str, Any]:
    return {
        "args": LOOKALIKES,
        "env": {"oomScoreAdj": -1, "capabilities": {"bounding": ["CAP_SYS_RESOURCE"]}},
        "capabilities": {"bounding": capabilities, "effective": capabilities, "ambient": []},
        "oomScoreAdj": score,
    }


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The front of a runtime that shows its arguments."""
    runtime = tmp_path_factory.mktemp("runtime") / "runc"
    runtime.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 3\n')
    runtime.chmod(0o755)
    return front.build(runtime, runtime.parent)


def call(program: Path, *arguments: str) -> None:
    """Run it; its arguments and exit status must be the runtime's."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (3, list(arguments), "")


@pytest.mark.parametrize("indent", [None, 1, "\t"])
@pytest.mark.parametrize("capabilities", [CAPABILITIES, CAPABILITIES[1:], CAPABILITIES[:2], CAPABILITIES[1:2], []])
@pytest.mark.parametrize("score", [-998, -1, 0, 1000])
@pytest.mark.parametrize("verb", ["create", "run", "restore"])
def test_bundle(
    program: Path, tmp_path: Path, indent: int | str | None, capabilities: list[str], score: int, verb: str
) -> None:
    rest = {
        "ociVersion": "1.0.2",
        "process2": process(-5, CAPABILITIES),
        "annotations": {"a": '"process":{'},
        "x": [1.5],
    }
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**rest, "process": process(score, capabilities), "y": [None, True]}, indent=indent))
    call(program, "--root", "/x", "--log", "create", verb, "--bundle", str(tmp_path), "--pid-file", "p", "id")
    kept = [name for name in capabilities if name != "CAP_SYS_RESOURCE"]
    assert json.loads(config.read_text()) == {**rest, "process": process(max(score, 0), kept), "y": [None, True]}


@pytest.mark.parametrize("written", [["--process", "FILE"], ["-p", "FILE"], ["--process=FILE"]])
def test_exec(program: Path, tmp_path: Path, written: list[str]) -> None:
    file = tmp_path / "process.json"
    file.write_text(json.dumps(process(-7, CAPABILITIES)))
    call(program, "exec", *(word.replace("FILE", str(file)) for word in written), "id")
    assert json.loads(file.read_text()) == process(0, ["CAP_CHOWN", "CAP_KILL"])


@pytest.mark.parametrize("text", ["", "{", '{"process":{"oomScoreAdj":-1', '{"a" 1}', '["x', '{"process":{}} x'])
def test_what_is_no_json_is_left_to_the_runtime(program: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    call(program, "create", "-b", str(tmp_path), "id")
    assert (tmp_path / "config.json").read_text() == text


def test_other_verbs_and_missing_files_pass(program: Path, tmp_path: Path) -> None:
    call(program, "create", "--bundle", str(tmp_path), "id")
    call(program, "state", "id")
    call(program, "delete", "--force", "id")
