"""What this machine allows the engine, found out once per connection to the engine.

Root inside many hosts lacks CAP_SYS_RESOURCE, and then nobody there can lower an OOM score below what the engine's
own process has: asking for it makes the start of a container fail. What is asked is clamped to what the host allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from crishim.front.twins import usable_twins

_CAP_SYS_RESOURCE = 24
_LOWEST, _HIGHEST = -1000, 1000
_STEP = 1024


@dataclass(frozen=True, slots=True)
class Host:
    """Limits of the host. `oom_floor`: the lowest OOM score adjustment that can be given to a process."""

    oom_floor: int = _LOWEST
    process: str = "self"
    """What procfs calls the process that lives where the host's own containers do: the engine's, or, unknown, ours."""
    twins: Mapping[str, str] = field(default_factory=dict)
    """Runtimes that have a fronted twin which asks this server, each with the twin's name."""
    recursing: frozenset[str] = frozenset()
    """Those of them that say they know recursively read-only mounts (`crishim.front.abilities`)."""
    hugepage_sizes: frozenset[str] = frozenset()
    """Sizes of huge pages that cgroups of this host can limit, as CRI writes them (`2MB`)."""

    def twin_of(self, runtime: str) -> str | None:
        """The runtime by which the engine is to run what `runtime` alone cannot; None: there is no front for it."""
        return self.twins.get(runtime)

    def clamp_oom_score(self, wanted: int) -> int:
        """The nearest OOM score adjustment to `wanted` that the host allows."""
        return max(self.oom_floor, min(wanted, _HIGHEST))

    @property
    def remark(self) -> str:
        """What Status says about it, empty when nothing is withheld."""
        if self.oom_floor == _LOWEST:
            return ""
        return f"the engine lacks CAP_SYS_RESOURCE: OOM score adjustments below {self.oom_floor} are raised to it"


def detect(
    daemon_pid: int,
    proc: Path = Path("/proc"),
    *,
    twins: Mapping[str, str] | None = None,
    desk: Path | None = None,
    sys: Path = Path("/sys"),
) -> Host:
    """Read what the engine's process may do; without a pid (0), or if it has gone, our own process stands for it.

    `twins`: the programs of fronted twins, by runtime; `desk`: the socket at which they are to ask.
    """
    usable = usable_twins(twins or {}, desk)
    name = str(daemon_pid) if daemon_pid and (proc / str(daemon_pid)).exists() else "self"
    process = proc / name
    capabilities = 0
    for line in (process / "status").read_text().splitlines():
        if line.startswith("CapEff:"):
            capabilities = int(line.split()[1], 16)
    floor = _LOWEST
    if not capabilities >> _CAP_SYS_RESOURCE & 1:
        floor = int((process / "oom_score_adj").read_text())
    return Host(oom_floor=floor, process=name, twins=usable, hugepage_sizes=hugepage_sizes(sys))


def hugepage_sizes(sys: Path = Path("/sys")) -> frozenset[str]:
    """Sizes of huge pages that the kernel has and that its cgroups can limit; none where they cannot."""
    cgroups = sys / "fs" / "cgroup"
    try:
        limited = "hugetlb" in (cgroups / "cgroup.controllers").read_text().split()
    except OSError:  # version 1: a folder for each controller
        limited = (cgroups / "hugetlb").is_dir()
    folder = sys / "kernel" / "mm" / "hugepages"
    if not limited or not folder.is_dir():
        return frozenset()
    kilobytes = [int(name.name.removeprefix("hugepages-").removesuffix("kB")) for name in folder.iterdir()]
    return frozenset(_size(number) for number in kilobytes)


def _size(kilobytes: int) -> str:
    """As the kernel names the files of its cgroups, and kubelets the sizes."""
    for unit in ("KB", "MB"):
        if kilobytes < _STEP:
            return f"{kilobytes}{unit}"
        kilobytes //= _STEP
    return f"{kilobytes}GB"
