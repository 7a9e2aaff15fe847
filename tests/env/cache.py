"""Where ``bootstrap.sh packages`` put things, and one clear line when it has not run."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""
CACHE = ROOT / ".cache"


def unpacked(package: str) -> Path:
    """The folder with a Debian package's files.  Raises RuntimeError saying what to run if it is missing."""
    folder = CACHE / "packages" / package
    if not (folder / ".complete").exists():
        raise RuntimeError(f"the package {package} is not in .cache: run tests/env/bootstrap.sh packages")
    return folder
