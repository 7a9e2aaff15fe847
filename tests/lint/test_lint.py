"""Lint is part of the tests: style, types, the design's laws about imports, and module sizes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 400
"""Lines of a hand-written module; a longer one is two modules."""
BIN = Path(sys.executable).parent

TOOLS = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "mypy": ["mypy", "."],
    "import contracts": ["lint-imports"],
}


@pytest.mark.parametrize("command", TOOLS.values(), ids=TOOLS)
def test_tool_is_content(command: list[str]) -> None:
    program = shutil.which(command[0], path=BIN)
    assert program, f"{command[0]} is not in {BIN}"
    done = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)  # shown with the failure; the summary stays short
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)} is not content: its words are above", pytrace=False)


def modules() -> list[Path]:
    """The hand-written Python files: what the tree holds but for hidden folders, build output and generated stubs."""
    skipped = {ROOT / "build", ROOT / "dist", ROOT / "crishim" / "cri"}
    found = []
    for path in ROOT.rglob("*.py"):
        hidden = any(part.startswith(".") for part in path.relative_to(ROOT).parts)
        if not hidden and not skipped & set(path.parents):
            found.append(path)
    return found


def test_no_module_is_too_long() -> None:
    paths = modules()
    assert Path(__file__) in paths
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in paths}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST} == {}


def test_no_module_is_named_for_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
    assert [str(path.relative_to(ROOT)) for path in modules() if vague & {path.stem, path.parent.name}] == []
