"""The client, built from main.go with the modules that go.mod pins (sums in go.sum).

``python -m tests.streaming_client.build`` builds it as far as it is not in the cache: outside a test world, as Go's
module proxy is asked for the sources.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from tests.conformance import cache
from tests.conformance.tools import ToolsMissingError, go_command, run_go

HERE = Path(__file__).parent
SOURCES = ("main.go", "go.mod", "go.sum")
NAME = "streaming-client"
HOW = "run: .venv/bin/python -m tests.streaming_client.build"


def _place() -> Path:
    key = hashlib.sha256()
    for name in SOURCES:
        key.update(hashlib.sha256((HERE / name).read_bytes()).digest())
    return cache.folder("tools", f"{NAME}-{key.hexdigest()[:12]}")


def client_path() -> Path:
    """The program of these sources.  Raises ToolsMissingError when it has not been built."""
    path = _place() / NAME
    if not path.exists():
        raise ToolsMissingError(f"{NAME} is not built: {HOW}")
    return path


def make_ready() -> None:
    """Build it if it is not in the cache.  Raises ToolsMissingError when that is not possible here."""
    place = _place()
    with cache.alone(place):
        if (place / NAME).exists():
            return
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="build-", dir=place) as temporary:
            work = Path(temporary)
            for name in SOURCES:
                shutil.copy(HERE / name, work)
            print(f"building {NAME}", file=sys.stderr, flush=True)
            run_go([*go_command(), "build", "-trimpath", "-ldflags=-s -w", "-o", str(work / NAME), "."], work)
            (work / NAME).rename(place / NAME)


def main() -> int:
    """Build it; returns 1 after a line that says why it cannot be done."""
    try:
        make_ready()
    except ToolsMissingError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
