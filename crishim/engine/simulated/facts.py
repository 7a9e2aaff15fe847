"""What the simulated engine says of itself."""

from __future__ import annotations

import os

from crishim import __version__
from crishim.engine.values import EngineFacts


def default_facts(data_root: str) -> EngineFacts:
    """An engine of this machine with one runtime. `data_root`: an existing folder, whose file system is told as the
    images'."""
    machine = os.uname()
    return EngineFacts(
        name="simulated",
        version=__version__,
        api_version=(1, 48),
        cgroup_driver="cgroupfs",
        cgroup_version=2,
        data_root=data_root,
        storage_driver="memory",
        containerd_store=False,
        runtimes=("runc",),
        default_runtime="runc",
        readonly_recursion=frozenset({"runc"}),
        security=frozenset({"seccomp", "cgroupns"}),
        architecture=machine.machine,
        kernel=machine.release,
        live_restore=True,
        experimental=False,
        daemon_pid=0,
    )
