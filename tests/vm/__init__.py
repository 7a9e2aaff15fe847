"""A Debian virtual machine for what the machine that tests run on may not be: one with systemd, cgroup v2 and AppArmor.

``make vm`` is the way to use it; README.md tells what is where.  Not here: the test world (``tests/env``), in which the
emulator runs, and the tools of cri-tools (``tests/conformance``).
"""

from __future__ import annotations

import os

from tests.vm.image import DEFAULT_SUITE

SUITE = os.environ.get("CRISHIM_VM_SUITE", DEFAULT_SUITE)
"""The Debian suite of this session's guest."""
