"""Wheels for the guest: all that crishim needs for the guest's Python, and crishim's own, made of this checkout.

The first are downloaded once and kept in the cache (:func:`make_ready`, with a network); the second is built anew in
each session, from the files that git knows of, so that it is never an older one's.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.conformance import cache
from tests.env.cache import ROOT

_OLDEST_GLIBC, _NEWEST_GLIBC = 17, 36
"""Minor versions: what a wheel may be built for, up to the oldest guest's (Debian 12)."""
_COMPLETE = ".complete"


class WheelsError(Exception):
    """Wheels cannot be had; the message ends on pip's words."""


def make_ready(python: str) -> None:
    """Download what ``.[test]`` and its build need, for Python ``python`` (``3.13``).  Raises WheelsError."""
    target = folder(python)
    with cache.alone(target):
        if (target / _COMPLETE).exists():
            return
        for old in target.parent.glob(f"wheels-{python}-*"):
            shutil.rmtree(old)
        print(f"vm: downloading wheels for Python {python}", flush=True)
        platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(_NEWEST_GLIBC, _OLDEST_GLIBC - 1, -1)]
        options = [f"--platform={name}" for name in (*platforms, "manylinux2014_x86_64", "manylinux1_x86_64")]
        options += ["--only-binary=:all:", f"--python-version={python}", "--implementation=cp", f"--dest={target}"]
        _pip(["download", "-q", *options, *requirements()])
        (target / _COMPLETE).touch()


def folder(python: str) -> Path:
    """Where the downloaded wheels lie, one folder for each list of requirements."""
    key = hashlib.sha256("\n".join([Path(__file__).read_text(), *requirements()]).encode()).hexdigest()[:12]
    return cache.folder("vm", f"wheels-{python}-{key}")


def to_run() -> list[str]:
    """What crishim needs to run, by pyproject.toml."""
    return list(_pyproject()["project"]["dependencies"])


def requirements() -> list[str]:
    """What pyproject.toml asks for: to build, to run, and to test, without crishim itself."""
    document = _pyproject()
    project = document["project"]
    found = [*document["build-system"]["requires"], *project["dependencies"]]
    pending = ["test"]
    for extra in pending:
        for requirement in project["optional-dependencies"][extra]:
            own = re.fullmatch(rf"{project['name']}\[([\w, -]+)\]", requirement)
            if own:
                pending += re.split(r"\s*,\s*", own[1])
            else:
                found.append(requirement)
    return sorted(set(found))


def _pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def copy_sources(target: Path) -> None:
    """A checkout as git would give it to somebody else, uncommitted changes included; ``target`` is made.

    Raises WheelsError when this is not a git checkout.
    """
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise WheelsError(f"git cannot list the checkout's files: {done.stderr.decode(errors='replace').strip()}")
    for name in filter(None, done.stdout.decode().split("\0")):
        source, copy = ROOT / name, target / name
        if source.is_file():  # a file that was deleted is still listed
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)


def build(python: str, sources: Path, target: Path) -> Path:
    """crishim's wheel, built of ``sources`` without a network, below ``target``.  Raises WheelsError."""
    offline = ["--no-index", f"--find-links={folder(python)}", "--no-deps", f"--wheel-dir={target}"]
    _pip(["wheel", "-q", *offline, str(sources)])
    return next(target.glob("crishim-*.whl"))


def _pip(arguments: Sequence[str]) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WheelsError(f"pip {arguments[0]} failed: {(done.stdout + done.stderr).strip()[-800:]}")
