"""The committed executables are what their source gives, as far as this machine can tell."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from crishim.front.program import build

MACHINES = {"amd64": 62, "arm64": 183}


@pytest.mark.parametrize("arch", build.COMPILERS)
def test_the_committed_file_is_what_the_source_gives(arch: str) -> None:
    try:
        made, by = build.build(arch)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    header = build.elf_path(arch).read_bytes()[:20]
    assert made[:20] == header, "another compiler's is an executable of the same kind, too"
    if by != build.made_by(arch):
        pytest.skip(
            f"built, not compared: {by.splitlines()[0]} here, {build.made_by(arch).splitlines()[0]} made the file"
        )
    assert made == build.elf_path(arch).read_bytes()


@pytest.mark.parametrize("arch", build.COMPILERS)
def test_it_is_small_and_needs_nothing(arch: str) -> None:
    """Static, not relocatable, no interpreter, and nothing that is both written and run."""
    program = build.elf_path(arch).read_bytes()
    kind, machine = struct.unpack_from("<HH", program, 16)
    (table,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    assert (program[:7], kind, machine) == (b"\x7fELF\x02\x01\x01", 2, MACHINES[arch])
    segments = [struct.unpack_from("<II", program, table + size * n) for n in range(count)]
    assert not [flags for kind, flags in segments if flags & 3 == 3]
    assert {kind for kind, _ in segments} <= {1, 0x6474E551}, "loaded parts and a stack"
    assert len(program) < 32768


def test_check_tells_a_stale_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    monkeypatch.setattr(build, "build", lambda arch: (arch.encode(), "gcc 1\n"))
    assert build.main([]) == 0
    assert build.main(["--check"]) == 0
    build.elf_path("arm64").write_bytes(b"?")
    assert build.main(["--check"]) == 1
    assert capsys.readouterr().err == f"{tmp_path}/front.arm64.elf is not what its source gives\n"
    monkeypatch.setattr(build, "build", lambda arch: (b"other", "gcc 2\n"))
    assert build.main(["--check", "arm64"]) == 0
    assert "built, not compared" in capsys.readouterr().err


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "")
    assert build.main(["--check"]) == 2
    assert "gcc-x86-64-linux-gnu" in capsys.readouterr().err
