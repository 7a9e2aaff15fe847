"""The engines of the matrix: the system's own, and Docker 26 and 28 out of Debian's newer suites.

``python -m tests.conformance.engines`` makes ready what can be (as root, outside a test world: it downloads).  Each
engine is a folder of programs for :class:`tests.env.engine.TestEngine` (``CRISHIM_TEST_ENGINE``), with an optional
``daemon.json`` of settings that belong to it.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance import cache, debian

PACKAGES = ("docker.io", "containerd", "runc", "criu", "iptables", "tini")
OPTIONAL = ("docker-cli",)
"""A package of its own since trixie."""
PROGRAMS = ("dockerd", "docker", "docker-proxy", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "criu", "tini")
XTABLES = ("iptables", "ip6tables", "iptables-save", "iptables-restore")
COMPLETE = ".complete"
"""The file that says that a folder is whole."""
_REVISION = "1"
"""Part of the folder's name; another one makes every machine unpack anew."""


@dataclass(frozen=True)
class MatrixEngine:
    """One column of the matrix."""

    key: str
    """Its name in expected.toml, results and pages."""
    suite: str | None
    """The Debian suite it is taken from; None: what the system has."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings for daemon.json."""
    front: bool = False
    """Whether the matrix judges it by critest once more, with the front of its runtime.  It takes as long as without;
    ``--front`` does it with any."""

    @property
    def folder(self) -> Path | None:
        """Where its programs are once ``make_ready`` has run; None for the system's own."""
        if self.suite is None:
            return None
        return cache.folder("engines", f"{self.key if self.config else self.suite}-r{_REVISION}", "bin")

    @property
    def ready(self) -> bool:
        """Whether it can be started."""
        return self.folder is None or (self.folder / COMPLETE).exists()


MATRIX: Sequence[MatrixEngine] = (
    MatrixEngine("system", None, front=True),
    MatrixEngine("26", "trixie"),
    MatrixEngine("28", "sid"),
    MatrixEngine("28-containerd", "sid", {"features": {"containerd-snapshotter": True}, "storage-driver": "overlayfs"}),
)
"""The engines that are judged.  ``system`` is reported under the major version it turns out to have."""


def make_ready(engine: MatrixEngine) -> None:
    """Download and unpack an engine's programs, if that has not been done.  Raises debian.DebianError."""
    programs = engine.folder
    if programs is None or engine.suite is None or engine.ready:
        return
    base = MatrixEngine(engine.suite, engine.suite)
    if engine.config:
        make_ready(base)
    target = programs.parent
    with cache.alone(target):
        if engine.ready:
            return
        shutil.rmtree(target, ignore_errors=True)  # what a killed run left
        if engine.config and base.folder is not None:
            _link(base.folder, programs)
            (programs / "daemon.json").write_text(json.dumps(engine.config, indent=1) + "\n")
        else:
            _unpack(engine.suite, target)
        (programs / COMPLETE).touch()


def _link(source: Path, target: Path) -> None:
    """Fill ``target`` with links to the programs in ``source``."""
    target.mkdir(parents=True)
    for program in source.iterdir():
        if program.name != COMPLETE:
            (target / program.name).symlink_to(program)


def _unpack(suite: str, target: Path) -> None:
    """Make an engine's folder where it stays: paths are written into the programs."""
    debs = debian.Suite(suite, target / "apt").download(PACKAGES, OPTIONAL)
    debian.take_programs(debs, (*PROGRAMS, "xtables-nft-multi"), target)
    shutil.rmtree(target / "apt")
    programs = target / "bin"
    (programs / "docker-init").symlink_to("tini")
    extensions = next((target / "lib").glob("*/xtables"))  # this folder is compiled in
    for name in XTABLES:
        script = f'#!/bin/sh\nXTABLES_LIBDIR={extensions} exec {programs}/xtables-nft-multi {name} "$@"\n'
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)


def main() -> int:
    """Make all engines ready; returns 1 if one cannot be, after a line that says why."""
    status = 0
    for engine in MATRIX:
        try:
            make_ready(engine)
        except debian.DebianError as error:
            print(f"engine {engine.key}: cannot be made ready: {error}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
