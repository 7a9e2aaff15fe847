"""The front that the tests of its program call."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from crishim.front.program import build
from crishim.front.twins import TwinConf
from tests.component.front.fronted import EMULATORS, NATIVE, PATIENCE, Fronted


@pytest.fixture
def fronted(request: pytest.FixtureRequest) -> Iterator[Fronted]:
    """Of the machine's own architecture, or of the other one where an emulator is."""
    arch = getattr(request, "param", NATIVE)
    folder = Path(tempfile.mkdtemp(prefix="front"))  # a short path, for the socket
    program, runtime = folder / "crishim-runc", folder / "runc"
    shutil.copy(build.elf_path(arch), program)
    program.chmod(0o755)
    runtime.write_text('#!/bin/sh\nprintf "%s|" "$@"\nprintf "%s" "$MARK"\nexit 3\n')
    runtime.chmod(0o755)
    command = [str(program)]
    if arch != NATIVE:
        emulator = shutil.which(EMULATORS[arch])
        if emulator is None:
            pytest.skip(f"{EMULATORS[arch]} is missing (package qemu-user-static)")
        command.insert(0, emulator)
    made = Fronted(folder, command)
    (folder / "crishim-runc.conf").write_text(TwinConf(str(runtime), str(made.desk)).text())
    made.bundle.mkdir()
    made.config.write_bytes(b'{"as": "it was"}')
    yield made
    for thread in made.threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "nobody asked"
    shutil.rmtree(folder)
