"""An engine of a module's own whose fronts ask the server that is told to it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.env.engine import TestEngine

FRONTED = os.environ.get("CRISHIM_TEST_FRONT") == "1"
"""Whether every server has the front, and not only those of tests that want it."""


class FrontedEngine(TestEngine):
    """Any test engine is one; this says which server by its `--run-dir`."""

    __test__ = False

    def ask(self, run_dir: Path) -> None:
        """Let containers' starts ask the server with this `--run-dir`."""
        self.front_asks(run_dir / "front.sock")
