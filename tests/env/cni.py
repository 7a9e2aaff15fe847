"""Folders for CNI: a configuration of a test's own, and the reference plugins that the system has."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PLUGINS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
"""Where Debian, and others, put the reference plugins."""


@dataclass(frozen=True)
class CniDirs:
    """``conf``: for conflists, empty at first.  ``bin``: links to the reference plugins; a test may add its own.

    ``data``: for host-local's ``dataDir``, so that addresses are the test's own.
    """

    conf: Path
    bin: Path
    data: Path

    def write(self, name: str, plugins: list[dict[str, Any]], cni_version: str = "1.0.0") -> Path:
        """Write the conflist ``name`` and return its path."""
        path = self.conf / f"{name}.conflist"
        path.write_text(json.dumps({"cniVersion": cni_version, "name": name, "plugins": plugins}))
        return path

    def write_bridge(self, name: str, bridge: str, subnet: str) -> Path:
        """Write a conflist of ``bridge`` with ``host-local`` addresses of ``subnet``; ``bridge`` is the link's name."""
        ipam = {"type": "host-local", "dataDir": str(self.data), "ranges": [[{"subnet": subnet}]]}
        return self.write(name, [{"type": "bridge", "bridge": bridge, "isGateway": True, "ipam": ipam}])


def make_bridge(name: str) -> None:
    """Make a bridge with an address of its own, for the reference bridge plugin to find.

    One that the plugin makes takes the address of a port. When the last port goes at the wrong moment, as after an ADD
    that was cut off, the plugin reads zeros and fails to set them ("could not set bridge's mac").
    """
    command = ["ip", "link", "add", name, "address", "02:00:5e:00:53:01", "type", "bridge"]
    subprocess.run(command, check=True)


def make_dirs(top: Path) -> CniDirs:
    """Make the folders below ``top``.  Raises RuntimeError when the system has no plugins."""
    source = next((folder for folder in PLUGINS if (folder / "bridge").exists()), None)
    if source is None:
        raise RuntimeError("CNI's reference plugins are missing: run tests/env/bootstrap.sh packages")
    dirs = CniDirs(top / "net.d", top / "bin", top / "networks")
    for folder in (dirs.conf, dirs.bin, dirs.data):
        folder.mkdir(parents=True)
    for plugin in source.iterdir():
        (dirs.bin / plugin.name).symlink_to(plugin)
    return dirs
