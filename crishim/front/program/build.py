"""Build the front's executables from `front.c`: `python -m crishim.front.program.build [--check] [ARCH ...]`.

For whoever changes the source; crishim itself only reads the committed files.  Needs a GCC for each architecture (see
PACKAGES); no libc.  Compilers differ in the bytes they make, so `front.ARCH.made-by` says which one made the committed
file: where that very one is, `--check` compares byte for byte, and elsewhere it says that it did not.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COMPILERS = {"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}
"""Architecture → compiler, by the name it has on every Debian machine, native or cross."""
PACKAGES = {"amd64": "gcc-x86-64-linux-gnu", "arm64": "gcc-aarch64-linux-gnu"}
"""Architecture → Debian package of the compiler, where it is not the machine's own."""
FLAGS = (
    *("-std=gnu11", "-Os", "-Wall", "-Wextra", "-Werror"),
    *("-ffreestanding", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-fno-ident"),
    *("-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"),
    "-fno-tree-loop-distribute-patterns",  # a loop that is memcpy is not to become a call of memcpy
    *("-s", "-Wl,--build-id=none", "-Wl,-z,noseparate-code", "-Wl,-z,noexecstack", "-Wl,-z,max-page-size=65536"),
)
EXTRA = {"amd64": ("-fcf-protection=none",), "arm64": ("-mno-outline-atomics",)}
"""Where compilers' defaults are distributions' own."""

FOLDER = Path(__file__).parent


def elf_path(arch: str) -> Path:
    """The committed executable."""
    return FOLDER / f"front.{arch}.elf"


def made_by(arch: str) -> str:
    """Which compiler made the committed executable."""
    return (FOLDER / f"front.{arch}.made-by").read_text("utf-8")


def find_compiler(arch: str) -> str:
    """The compiler's path. Raises FileNotFoundError where there is none."""
    native = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine()) == arch
    found = shutil.which(COMPILERS[arch]) or (shutil.which("gcc") if native else None)
    if found is None:
        raise FileNotFoundError(f"{COMPILERS[arch]} is missing; on Debian it is in {PACKAGES[arch]}")
    return found


def identify(compiler: str) -> str:
    """Compiler and linker with their versions, as far as they tell; the architecture's name is not in it."""
    linker = subprocess.run(
        [compiler, "-print-prog-name=ld"], capture_output=True, text=True, check=True
    ).stdout.strip()
    lines = []
    for program in (compiler, linker):
        told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
        lines.append(told.partition(" ")[2])
    return "\n".join(lines) + "\n"


def build(arch: str) -> tuple[bytes, str]:
    """The executable made of `front.c`, and by what.

    Raises FileNotFoundError without the compiler, CalledProcessError when it refuses the source.
    """
    compiler = find_compiler(arch)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "front")
        command = [compiler, *FLAGS, *EXTRA[arch], "-o", str(target), str(FOLDER / "front.c")]
        subprocess.run(command, check=True)
        return target.read_bytes(), identify(compiler)


def main(arguments: list[str] | None = None) -> int:
    """Write the executables, or with `--check` compare them with the committed ones.  Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m crishim.front.program.build", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail if a file is not what its source gives"
    )
    parser.add_argument("arch", nargs="*", choices=[*COMPILERS, []], help="architectures (default: all)")
    options = parser.parse_args(arguments)
    stale = False
    for arch in options.arch or COMPILERS:
        try:
            made, by = build(arch)
        except FileNotFoundError as error:
            sys.stderr.write(f"{error}\n")
            return 2
        path = elf_path(arch)
        if not options.check:
            path.write_bytes(made)
            path.chmod(0o755)
            (FOLDER / f"front.{arch}.made-by").write_text(by, "utf-8")
        elif by != made_by(arch):
            sys.stderr.write(f"{path.name} was made by another compiler: built, not compared\n")
        elif path.read_bytes() != made:
            sys.stderr.write(f"{path} is not what its source gives\n")
            stale = True
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
