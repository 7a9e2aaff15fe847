"""What a plugin or a server loads only when it needs it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import json, sys
from crishim import app
from crishim.network.embedded import backend
from cni.plugins import dispatch
from cni.plugins.registry import EMBEDDED, load

plugins = {kind: load(kind) for kind in EMBEDDED}
config = {"cniVersion": "1.1.0", "name": "n", "type": "bandwidth", "prevResult": {"cniVersion": "1.1.0"}}
environment = {"CNI_CONTAINERID": "c", "CNI_IFNAME": "eth0", "CNI_NETNS": "/n"}
for verb in ("ADD", "CHECK", "DEL"):  # without a limit
    dispatch.run(plugins["bandwidth"], environment | {"CNI_COMMAND": verb}, json.dumps(config).encode())
print("pyroute2" in sys.modules)
import cni.plugins.bandwidth.shaping
print("pyroute2" in sys.modules)
"""


def test_pyroute2_is_loaded_for_shaping_only() -> None:
    """Neither by the server with all plugins, nor by bandwidth where nothing is limited."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nTrue\n"
