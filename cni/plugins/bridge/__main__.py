"""`python -m cni.plugins.bridge`: the plugin as a program."""

from __future__ import annotations

import sys

from cni.plugins.bridge import Bridge
from cni.plugins.executable import main

sys.exit(main(Bridge()))
