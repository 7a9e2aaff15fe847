"""containerd, its shim and its client, built from the version that go.mod pins (sums in go.sum).

``python -m tests.bench.containerd.build`` builds them as far as they are not in the cache, which takes some minutes:
outside a test world, as Go's module proxy is asked for the sources.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.conformance.go_programs import GoPrograms

HERE = Path(__file__).parent
MODULE = "github.com/containerd/containerd/v2"
NAMES = ("containerd", "containerd-shim-runc-v2", "ctr")
PROGRAMS = GoPrograms(
    what="containerd",
    here=HERE,
    sources=("go.mod", "go.sum"),
    packages={name: f"{MODULE}/cmd/{name}" for name in NAMES},
    how="run: .venv/bin/python -m tests.bench.containerd.build",
)


def version() -> str:
    """The pinned version, without the leading ``v``."""
    found = re.search(rf"^\s*{re.escape(MODULE)} v(\S+)", (HERE / "go.mod").read_text(), re.MULTILINE)
    assert found, "go.mod must require containerd"
    return found.group(1)


if __name__ == "__main__":
    sys.exit(PROGRAMS.main())
