"""What `pip install .` installs: every file of the two packages, the command and the entry points."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("crishim", "cni")


def files(root: Path) -> set[str]:
    """The packages' files, by path from `root`, without what running them leaves."""
    found = (path for package in PACKAGES for path in (root / package).rglob("*") if path.is_file())
    return {str(path.relative_to(root)) for path in found if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that the build leaves nothing in the tree."""
    source = tmp_path_factory.mktemp("wheel") / "source"
    source.mkdir()
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, source)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*command, "--wheel-dir", source.parent, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = source.parent.glob("*.whl")
    return made


def test_it_holds_every_file_of_the_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == files(ROOT)


def test_it_gives_the_command_and_the_entry_points(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
        points = ConfigParser()
        points.read_string(archive.read(name).decode())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert dict(points["console_scripts"]) == project["scripts"]
    assert {group: dict(points[group]) for group in project["entry-points"]} == project["entry-points"]
