"""CNI's reference plugins, built at the version that go.mod pins (sums in go.sum).

``python -m tests.reference_plugins.build`` builds them as far as they are not in the cache: outside a test world, as
Go's module proxy is asked for the sources.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import tempfile
from pathlib import Path

from tests.conformance import cache
from tests.conformance.tools import ToolsMissingError, go_command, run_go

HERE = Path(__file__).parent
SOURCES = ("go.mod", "go.sum", "tools.go")
MODULE = "github.com/containernetworking/plugins"
PLUGINS = {
    "bridge": "plugins/main/bridge",
    "loopback": "plugins/main/loopback",
    "host-local": "plugins/ipam/host-local",
    "bandwidth": "plugins/meta/bandwidth",
    "portmap": "plugins/meta/portmap",
}
"""What is built, by the names that conflists know."""
HOW = "run: .venv/bin/python -m tests.reference_plugins.build"


def version() -> str:
    """The version that go.mod pins, without the leading ``v``."""
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(MODULE)} v(\S+)", (HERE / "go.mod").read_text(), re.MULTILINE)
    assert found, "go.mod must require the plugins"
    return found.group(1)


def folder() -> Path:
    """The folder with the plugins.  Raises ToolsMissingError when they have not been built."""
    place = _place()
    if not all((place / name).exists() for name in PLUGINS):
        raise ToolsMissingError(f"the reference plugins {version()} are not built: {HOW}")
    return place


def _place() -> Path:
    key = hashlib.sha256()
    for name in SOURCES:
        key.update(hashlib.sha256((HERE / name).read_bytes()).digest())
    return cache.folder("tools", f"cni-plugins-{version()}-{key.hexdigest()[:12]}")


def make_ready() -> None:
    """Build what is not in the cache.  Raises ToolsMissingError when that is not possible here."""
    place = _place()
    with cache.alone(place):
        missing = [name for name in PLUGINS if not (place / name).exists()]
        if not missing:
            return
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="build-", dir=place) as temporary:
            work = Path(temporary)
            for name in SOURCES:
                shutil.copy(HERE / name, work)
            print(f"building the reference plugins {version()}", file=sys.stderr, flush=True)
            packages = [f"{MODULE}/{PLUGINS[name]}" for name in missing]
            built = work / "built"
            run_go([*go_command(), "build", "-trimpath", "-ldflags=-s -w", "-o", f"{built}/", *packages], work)
            for name in missing:
                (built / name).rename(place / name)


def main() -> int:
    """Build them; returns 1 after a line that says why it cannot be done."""
    try:
        make_ready()
    except ToolsMissingError as error:
        print(f"reference plugins: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
