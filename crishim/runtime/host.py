"""What this machine allows the engine, found out once per connection to the engine.

Root inside many hosts lacks CAP_SYS_RESOURCE, and then nobody there can lower an OOM score below what the engine's
own process has: asking for it makes the start of a container fail. What is asked is clamped to what the host allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_CAP_SYS_RESOURCE = 24
_LOWEST, _HIGHEST = -1000, 1000


@dataclass(frozen=True, slots=True)
class Host:
    """Limits of the host. `oom_floor`: the lowest OOM score adjustment that can be given to a process."""

    oom_floor: int = _LOWEST

    def clamp_oom_score(self, wanted: int) -> int:
        """The nearest OOM score adjustment to `wanted` that the host allows."""
        return max(self.oom_floor, min(wanted, _HIGHEST))

    @property
    def remark(self) -> str:
        """What Status says about it, empty when nothing is withheld."""
        if self.oom_floor == _LOWEST:
            return ""
        return f"the engine lacks CAP_SYS_RESOURCE: OOM score adjustments below {self.oom_floor} are raised to it"


def detect(daemon_pid: int, proc: Path = Path("/proc")) -> Host:
    """Read what the engine's process may do; without a pid (0), or if it has gone, our own process stands for it."""
    process = proc / (str(daemon_pid) if daemon_pid and (proc / str(daemon_pid)).exists() else "self")
    capabilities = 0
    for line in (process / "status").read_text().splitlines():
        if line.startswith("CapEff:"):
            capabilities = int(line.split()[1], 16)
    if capabilities >> _CAP_SYS_RESOURCE & 1:
        return Host()
    return Host(oom_floor=int((process / "oom_score_adj").read_text()))
