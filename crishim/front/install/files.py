"""The files of a twin: its program and what that is told, and the engine's daemon.json; each is replaced at once and
whole."""

from __future__ import annotations

import os
import platform
import stat
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from crishim.front.install.problems import FrontProblem
from crishim.front.twins import TwinConf, conf_path

FOLDER = "front"
"""Below the state_dir, for it must survive a boot: the engine starts containers of its own accord, and stops ours."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""uname's names → Go's, for machines that the front was built for."""


def program_bytes(machine: str = "") -> bytes:
    """The front for this machine. Raises FrontProblem where there is none."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise FrontProblem(f"there is no runtime front for {machine} machines (only for {', '.join(ARCHITECTURES)})")
    return resources.files("crishim.front.program").joinpath(f"front.{ARCHITECTURES[machine]}.elf").read_bytes()


@dataclass(frozen=True, slots=True)
class TwinFiles:
    """A twin's program and its conf."""

    program: Path

    def place(self, content: bytes, conf: TwinConf) -> None:
        """Write both, the program last. Raises OSError."""
        self.program.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        self.tell(conf)
        replace_file(self.program, content, 0o755)

    def tell(self, conf: TwinConf) -> None:
        """Write the conf only. Raises OSError."""
        replace_file(conf_path(self.program), conf.text().encode(errors="surrogateescape"), 0o644)

    def take_away(self) -> None:
        """Remove both; what is not there is no error. Raises OSError."""
        self.program.unlink(missing_ok=True)
        conf_path(self.program).unlink(missing_ok=True)


def replace_file(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file so that a reader, and a crash, see the old or the new one. Raises OSError.

    `mode` None: with mode and owner of the one that is there, 0644 and ours where there is none. A link stays one.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    before = path.stat() if mode is None and path.exists() else None
    draft = path.with_name(f".{path.name}.crishim")
    try:
        with draft.open("wb") as file:
            file.write(content)
            if before is not None:
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode) if before is not None else mode or 0o644)
            file.flush()
            os.fsync(file.fileno())
        try:
            draft.replace(path)
        except OSError as error:  # people know the file, not the draft
            raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        draft.unlink(missing_ok=True)
