"""What a backend gets to know when it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from crishim.network.memory import NetworkMemory

DEFAULT_RANGE = "10.86.0.0/16"
"""Range of the embedded network's addresses where nobody names one."""


@dataclass(frozen=True, kw_only=True)
class NetworkSetup:
    """Passed to the factories of the entry point group `crishim.networks`."""

    memory: NetworkMemory
    """For a few texts that are to survive a restart; its keys begin with the backend's name."""
    conf_dir: str = "/etc/cni/net.d"
    """CNI's network configurations."""
    bin_dirs: Sequence[str] = field(default=("/opt/cni/bin", "/usr/lib/cni"))
    """CNI's plugins."""
    run_dir: str = "/run/crishim"
    """For what must not survive a boot."""
    pod_cidr: str = DEFAULT_RANGE
    """Range or ranges of the embedded network, comma separated; UpdateRuntimeConfig goes before it."""
    timeout: float = 120.0
    """Seconds for one CNI plugin and verb."""
    missing_hint: Callable[[], str] | None = None
    """More words for the status of a CNI folder without any configuration."""
