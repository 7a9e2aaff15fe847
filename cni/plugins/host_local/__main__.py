"""`python -m cni.plugins.host_local`: the plugin as a program."""

from __future__ import annotations

import sys

from cni.plugins.executable import main
from cni.plugins.host_local import HostLocal

sys.exit(main(HostLocal()))
