"""Where in the cgroup tree a pod lives (CRI `LinuxPodSandboxConfig.cgroup_parent`)."""

from __future__ import annotations

import posixpath
from typing import Literal

from crishim.engine.values import EngineFacts
from crishim.errors import InvalidArgument


def make_cgroup_parent(asked: str, facts: EngineFacts, field: str) -> str:
    """The engine's cgroup parent. CRI gives a cgroupfs path; the systemd driver wants the slice's name alone."""
    if not asked:
        return ""
    if ".." in asked.split("/"):
        raise InvalidArgument(f"{asked!r} leaves its parent", field=field)
    if facts.cgroup_driver != "systemd":
        return asked
    name = posixpath.basename(asked.rstrip("/"))
    if not name.endswith(".slice"):
        raise InvalidArgument(f"{asked!r} does not end in a slice, and the engine uses systemd", field=field)
    return name


def cgroupns_mode(facts: EngineFacts, *, privileged: bool) -> Literal["private", "host"]:
    """The cgroup namespace: said explicitly, since the engine's default is an option of its daemon."""
    return "private" if facts.cgroup_version == 2 and not privileged else "host"
