"""What the real runtime behind a front says that it can do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crishim.front import abilities
from crishim.front.abilities import recursing
from crishim.front.twins import TwinConf, conf_path

TELLS = f"printf '%s' '{json.dumps({'mountOptions': ['ro', 'rro']})}'"


@pytest.mark.parametrize(
    ("script", "known"),
    [
        (f'[ "$1 $2" = "--debug features" ] && {TELLS}', True),
        ("""echo '{"mountOptions": ["ro"]}'""", False),
        ("echo '[]'", False),
        ("echo no JSON", False),
        ("exit 1", False),
        (None, False),
    ],
    ids=str,
)
async def test_recursing(tmp_path: Path, script: str | None, known: bool) -> None:
    runtime = tmp_path / "runtime"
    if script is not None:
        runtime.write_text(f"#!/bin/sh\n{script}\n")
        runtime.chmod(0o755)
    program = tmp_path / "crishim-x"
    conf_path(program).write_text(TwinConf(str(runtime), "/run/desk", ("--debug",)).text())
    assert await recursing({"x": str(program), "y": "/nowhere"}, ["x"]) == ({"x"} if known else frozenset())


async def test_one_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abilities, "_PATIENCE", 1)  # in which it has certainly begun
    runtime, program = tmp_path / "runtime", tmp_path / "crishim-x"
    runtime.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    runtime.chmod(0o755)
    conf_path(program).write_text(TwinConf(str(runtime), "/run/desk").text())
    assert await recursing({"x": str(program)}, ["x"]) == frozenset()
    pid = (tmp_path / "pid").read_text().strip()
    assert not Path(f"/proc/{pid}").exists()
