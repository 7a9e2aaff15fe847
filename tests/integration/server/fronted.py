"""An engine whose default runtime has a fronted twin, that asks the server which is told to it."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from crishim.engine.twins import twin_name
from crishim.front import program
from crishim.front.twins import TwinConf, conf_path
from tests.env.engine import TestEngine


class FrontedEngine(TestEngine):
    """As `crishim install-runtime` leaves an engine, but for the server that it was made for: `ask` says which."""

    __test__ = False
    real = ""
    """The runtime that the twin becomes."""

    @property
    def twin(self) -> Path:
        """The front's program."""
        return self.folder / "twin"

    def ask(self, run_dir: Path) -> None:
        """Let containers' starts ask the server with this `--run-dir`."""
        conf = TwinConf(self.real, str(run_dir / "front.sock"))
        conf_path(self.twin).write_text(conf.text())

    def _daemon_json(self) -> dict[str, Any]:
        settings = super()._daemon_json()
        default = settings.get("default-runtime", "runc")
        self.real = str(settings["runtimes"].get(default, {}).get("path") or self._program("runc"))
        if not self.twin.exists():
            machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
            self.twin.write_bytes((files(program) / f"front.{machine}.elf").read_bytes())
            self.twin.chmod(0o755)
        settings["runtimes"][twin_name(default)] = {"path": str(self.twin)}
        return settings
