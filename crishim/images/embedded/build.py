"""Build the pause executables from their assembly source: `python -m crishim.images.embedded.build [--check]`.

For whoever changes the source; crishim itself only reads the committed files.  Needs the GNU assemblers of both
machines (see PACKAGES).  No compiler, no linker, no libc.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from crishim.images.embedded import elf

ASSEMBLERS = {"amd64": "x86_64-linux-gnu-as", "arm64": "aarch64-linux-gnu-as"}
"""Architecture → assembler, by the name it has on every Debian machine, native or cross."""
PACKAGES = {"amd64": "binutils-x86-64-linux-gnu", "arm64": "binutils-aarch64-linux-gnu"}
"""Architecture → Debian package of the assembler."""

FOLDER = Path(__file__).parent


def build(arch: str) -> bytes:
    """Return the executable made from `pause.ARCH.S`.

    Raises FileNotFoundError without the assembler, CalledProcessError when it refuses the source, ValueError when the
    code is not what `elf` can carry.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "pause.o")
        subprocess.run([ASSEMBLERS[arch], "-o", str(target), str(FOLDER / f"pause.{arch}.S")], check=True)
        return elf.executable(elf.text_of(target.read_bytes(), arch), arch)


def main(arguments: list[str] | None = None) -> int:
    """Write the executables, or with `--check` compare them with the committed ones.  Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m crishim.images.embedded.build", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail if a file is not what its source gives"
    )
    check = parser.parse_args(arguments).check
    stale = False
    for arch in elf.MACHINES:
        path = FOLDER / f"pause.{arch}.elf"
        try:
            made = build(arch)
        except FileNotFoundError:
            sys.stderr.write(f"{ASSEMBLERS[arch]} is missing; on Debian it is in {PACKAGES[arch]}\n")
            return 2
        if not check:
            path.write_bytes(made)
            path.chmod(0o755)
        elif not path.exists() or path.read_bytes() != made:
            sys.stderr.write(f"{path} is not what its source gives\n")
            stale = True
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
