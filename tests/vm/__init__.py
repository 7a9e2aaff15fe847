"""A Debian virtual machine for what the machine that tests run on may not be: one with systemd, cgroup v2 and AppArmor.

``make vm`` is the way to use it; README.md tells what is where.  Not here: the test world (``tests/env``), in which the
emulator runs, and the tools of cri-tools (``tests/conformance``).
"""
