"""The pause program itself: its files, and how it behaves as an ordinary process."""

from __future__ import annotations

import platform
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from crishim.images.embedded import build, elf

FOLDER = Path(str(resources.files("crishim.images.embedded")))
NATIVE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
EMULATORS = {"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static"}


@pytest.mark.parametrize("arch", elf.MACHINES)
def test_the_committed_file_is_what_the_source_gives(arch):
    if shutil.which(build.ASSEMBLERS[arch]) is None:
        pytest.skip(f"{build.ASSEMBLERS[arch]} is missing (package {build.PACKAGES[arch]})")
    assert build.build(arch) == (FOLDER / f"pause.{arch}.elf").read_bytes()


@pytest.mark.parametrize("arch", elf.MACHINES)
def test_header(arch):
    """One segment, readable and executable but not writable, that is the whole file; the entry point lies in it."""
    program = (FOLDER / f"pause.{arch}.elf").read_bytes()
    kind, machine, version, entry, table = struct.unpack_from("<HHIQQ", program, 16)
    size, count, sections = struct.unpack_from("<HHxxH", program, 54)
    assert program[:7] == b"\x7fELF\x02\x01\x01"
    assert (kind, machine, version, sections) == (2, elf.MACHINES[arch], 1, 0)
    assert (size, count) == (56, 2)
    load, stack = (struct.unpack_from("<IIQQQQQQ", program, table + 56 * index) for index in range(2))
    assert load[:2] == (1, 5)
    assert (load[2], load[5], load[6]) == (0, len(program), len(program))
    assert load[3] <= entry < load[3] + len(program)
    assert load[3] % load[7] == load[2] % load[7]
    assert stack[:2] == (0x6474E551, 6)
    assert len(program) < 512


def test_check_tells_a_stale_file(tmp_path, monkeypatch, capsys):
    for arch in elf.MACHINES:
        (tmp_path / f"pause.{arch}.elf").write_bytes(arch.encode())
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    monkeypatch.setattr(build, "build", lambda arch: b"amd64")
    assert build.main(["--check"]) == 1
    assert capsys.readouterr().err == f"{tmp_path}/pause.arm64.elf is not what its source gives\n"
    assert build.main([]) == 0
    assert build.main(["--check"]) == 0


def test_a_missing_assembler_is_named(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    assert build.main(["--check"]) == 2
    assert "binutils-x86-64-linux-gnu" in capsys.readouterr().err


def test_objects_that_need_a_linker_are_refused(tmp_path: Path):
    if shutil.which("x86_64-linux-gnu-as") is None:
        pytest.skip("x86_64-linux-gnu-as is missing (package binutils-x86-64-linux-gnu)")

    def assembled(source: str, tmp: Path) -> bytes:
        subprocess.run(["x86_64-linux-gnu-as", "-o", tmp, "-"], input=source.encode(), check=True)
        return tmp.read_bytes()

    target = tmp_path / "x.o"
    assert elf.text_of(assembled("ret\n", target), "amd64") == b"\xc3"
    with pytest.raises(ValueError, match="linker"):
        elf.text_of(assembled("call elsewhere\n", target), "amd64")
    with pytest.raises(ValueError, match=r"only \.text"):
        elf.text_of(assembled(".data\n.quad 1\n", target), "amd64")
    with pytest.raises(ValueError, match="arm64"):
        elf.text_of(assembled("ret\n", target), "arm64")


@pytest.fixture(params=list(elf.MACHINES))
def pause(request, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The program, running and asleep: natively, or under qemu's user mode emulation where there is one."""
    program = tmp_path / "pause"
    shutil.copy(FOLDER / f"pause.{request.param}.elf", program)
    program.chmod(0o755)
    command = [str(program)]
    if request.param != NATIVE:
        emulator = shutil.which(EMULATORS[request.param])
        if emulator is None:
            pytest.skip(f"{EMULATORS[request.param]} is missing (package qemu-user-static)")
        command.insert(0, emulator)
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 10
    while not waits(process.pid):
        assert process.poll() is None
        assert time.monotonic() < deadline
    yield process
    process.kill()
    process.wait()


def status(pid: int) -> dict[str, str]:
    text = Path(f"/proc/{pid}/status").read_text()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}


def waits(pid: int) -> bool:
    """Whether it sleeps and ignores HUP, the last signal that it sets (seen through qemu as well)."""
    return status(pid)["State"].startswith("S") and bool(int(status(pid)["SigIgn"], 16) & 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ends_with_status_0_when_told(pause, number):
    pause.send_signal(number)
    assert pause.wait(5) == 0


def test_other_signals_do_not_end_it(pause):
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT, signal.SIGCHLD, signal.SIGPIPE, signal.SIGALRM):
        pause.send_signal(number)
    pause.send_signal(signal.SIGSTOP)
    pause.send_signal(signal.SIGCONT)  # a wait cut short is taken up again
    deadline = time.monotonic() + 10
    while not waits(pause.pid):  # a fatal signal would have made it run, then a zombie, before we see it asleep
        assert pause.poll() is None
        assert time.monotonic() < deadline
    pause.terminate()
    assert pause.wait(5) == 0
