"""Recorded trees, laid out as the kernel would show them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from crishim.stats.kernel import Kernel

RECORDINGS = Path(__file__).parents[2] / "data" / "cgroups"
NOW = 1_700_000_000 * 10**9


@dataclass
class Tree:
    """A recording in a folder."""

    root: Path
    sandbox: str
    container: str
    pids: dict[str, int]
    files: dict[str, str]

    @property
    def proc(self) -> str:
        return str(self.root / "proc")

    def kernel(self) -> Kernel:
        """What reads it, at a time that stands still."""
        return Kernel(self.proc, lambda: NOW)

    def of(self, which: str, name: str, controller: str = "") -> str:
        """The recorded content of a file of a cgroup: of `sandbox`, `container`, or `pod`."""
        inside = self.sandbox if which == "sandbox" else self.container
        for path, text in self.files.items():
            folder, _, file = path.rpartition("/")
            if file == name and inside in folder and (not controller or f"/{controller}/" in path):
                above = folder.rpartition("/")[0]
                return self.files[f"{above}/{name}"] if which == "pod" else text
        raise KeyError(name)

    def path(self, recorded: str) -> Path:
        """Where a recorded file lies."""
        return self.root / recorded.lstrip("/")

    def has(self, which: str, name: str) -> bool:
        try:
            self.of(which, name)
        except KeyError:
            return False
        return True


@pytest.fixture
def lay_out(tmp_path: Path) -> Callable[[str], Tree]:
    """Lay out a recording by its name."""

    def make(name: str) -> Tree:
        recorded: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text())
        root = tmp_path / name
        for path, text in recorded["files"].items():
            if path == "/proc/self/mountinfo":
                # The recorder saw its cgroups at the root; here they lie in a folder.
                text = text.replace(" /sys/fs/cgroup", f" {root}/sys/fs/cgroup")
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode("latin-1"))
        return Tree(root, recorded["sandbox"], recorded["container"], recorded["pids"], recorded["files"])

    return make


@pytest.fixture
def v1(lay_out: Callable[[str], Tree]) -> Tree:
    """Version 1, hybrid, cgroupfs driver."""
    return lay_out("v1")


@pytest.fixture
def v2(lay_out: Callable[[str], Tree]) -> Tree:
    """Version 2, systemd driver."""
    return lay_out("v2-systemd")


@pytest.fixture(params=["v1", "v2-systemd"])
def tree(request: pytest.FixtureRequest, lay_out: Callable[[str], Tree]) -> Tree:
    """Each of them."""
    return lay_out(request.param)
