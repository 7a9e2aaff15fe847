"""The committed stubs are what the contract gives, byte for byte, and generating has no memory."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
STUBS = ("crishim/cri/v1/runtime_pb2.py", "crishim/cri/v1/runtime_pb2.pyi")


def generated(target: Path) -> dict[str, bytes]:
    target.mkdir()
    done = subprocess.run(
        [sys.executable, ROOT / "api" / "generate.py", target], capture_output=True, text=True, check=False, cwd=target
    )
    assert done.returncode == 0, done.stderr
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


def test_committed_stubs_are_fresh(tmp_path: Path) -> None:
    stubs = generated(tmp_path / "once")
    assert sorted(stubs) == sorted(STUBS)
    stale = [name for name in STUBS if (ROOT / name).read_bytes() != stubs[name]]
    assert stale == [], "run `make gen` and commit the result"
    assert generated(tmp_path / "again") == stubs


def test_a_contract_that_does_not_compile_is_reported(tmp_path: Path) -> None:
    contract = tmp_path / "api" / "crishim" / "cri" / "v1" / "runtime.proto"
    contract.parent.mkdir(parents=True)
    contract.write_text('syntax = "proto3";\nmessage Broken {\n')
    script = tmp_path / "api" / "generate.py"
    script.write_bytes((ROOT / "api" / "generate.py").read_bytes())
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "runtime.proto" in done.stderr
    assert not (tmp_path / "crishim").exists()


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def test_the_package_demands_a_protobuf_that_can_load_the_stubs() -> None:
    """Generated code refuses a runtime older than its generator, so pyproject.toml must not promise less."""
    made = re.search(r"^# Protobuf Python Version: ([\d.]+)$", (ROOT / STUBS[0]).read_text(), re.MULTILINE)
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    asked = re.search(r"^protobuf>=([\d.]+)", "\n".join(needs), re.MULTILINE)
    assert made is not None
    assert asked is not None
    assert numbers(asked[1]) >= numbers(made[1])
