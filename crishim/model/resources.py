"""What a container or pod may use of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class HugepageLimit:
    """Limit for one size of huge page (CRI `HugepageLimit`)."""

    page_size: str = ""
    """Size as the kernel's cgroup files name it, for example `2MB`."""
    limit: int = 0
    """Bytes; kubelets send 0 for every size, also on nodes without huge pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinuxContainerResources:
    """Limits in the cgroup's terms (CRI `LinuxContainerResources`).

    Zero or empty: not given; in an update: leave as it is.
    """

    cpu_period: int = 0
    """Microseconds of one CFS period."""
    cpu_quota: int = 0
    """Microseconds of CPU time in a period; −1 is no limit."""
    cpu_shares: int = 0
    """Relative weight on cgroup v1's scale (2 to 262144), on v2 as well."""
    memory_limit_in_bytes: int = 0
    oom_score_adj: int = 0
    """−1000 (never killed) to 1000."""
    cpuset_cpus: str = ""
    """List such as `0-2,7`."""
    cpuset_mems: str = ""
    hugepage_limits: tuple[HugepageLimit, ...] = ()
    unified: Mapping[str, str] = field(default_factory=dict)
    """File name to content, written into the cgroup v2 folder as they are."""
    memory_swap_limit_in_bytes: int = 0
    """Memory and swap together, in bytes; 0 with a memory limit: no swap beyond it."""
