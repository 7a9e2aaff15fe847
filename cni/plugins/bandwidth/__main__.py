"""`python -m cni.plugins.bandwidth`: the plugin as a program."""

from __future__ import annotations

import sys

from cni.plugins.bandwidth import Bandwidth
from cni.plugins.executable import main

sys.exit(main(Bandwidth()))
