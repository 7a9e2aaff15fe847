"""CNI's reference plugins, built at the version that go.mod pins (sums in go.sum).

``python -m tests.reference_plugins.build`` builds them as far as they are not in the cache: outside a test world, as
Go's module proxy is asked for the sources.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.conformance.go_programs import GoPrograms

HERE = Path(__file__).parent
MODULE = "github.com/containernetworking/plugins"
PLUGINS = {
    "bridge": "plugins/main/bridge",
    "loopback": "plugins/main/loopback",
    "host-local": "plugins/ipam/host-local",
    "bandwidth": "plugins/meta/bandwidth",
    "portmap": "plugins/meta/portmap",
}
"""What is built, by the names that conflists know."""


def version() -> str:
    """The version that go.mod pins, without the leading ``v``."""
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(MODULE)} v(\S+)", (HERE / "go.mod").read_text(), re.MULTILINE)
    assert found, "go.mod must require the plugins"
    return found.group(1)


PROGRAMS = GoPrograms(
    what=f"cni-plugins {version()}",
    here=HERE,
    sources=("go.mod", "go.sum", "tools.go"),
    packages={name: f"{MODULE}/{package}" for name, package in PLUGINS.items()},
    how="run: .venv/bin/python -m tests.reference_plugins.build",
)
folder = PROGRAMS.folder
make_ready = PROGRAMS.make_ready

if __name__ == "__main__":
    sys.exit(PROGRAMS.main())
