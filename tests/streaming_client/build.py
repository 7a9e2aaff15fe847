"""The client, built from main.go with the modules that go.mod pins (sums in go.sum).

``python -m tests.streaming_client.build`` builds it as far as it is not in the cache: outside a test world, as Go's
module proxy is asked for the sources.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.conformance.go_programs import GoPrograms

NAME = "streaming-client"
PROGRAMS = GoPrograms(
    what=NAME,
    here=Path(__file__).parent,
    sources=("main.go", "go.mod", "go.sum"),
    packages={NAME: "."},
    how="run: .venv/bin/python -m tests.streaming_client.build",
)
make_ready = PROGRAMS.make_ready


def client_path() -> Path:
    """The program of these sources.  Raises ToolsMissingError when it has not been built."""
    return PROGRAMS.folder() / NAME


if __name__ == "__main__":
    sys.exit(PROGRAMS.main())
