"""What the verbs of statistics answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crishim.runtime.objects import Container, Sandbox
from crishim.stats.place import Place
from crishim.stats.values import Layer, Network, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFigures:
    """One container (CRI `ContainerStats`). `usage` None: it does not run."""

    container: Container
    usage: Usage | None
    layer: Layer
    mountpoint: str
    """An existing folder on the file system of the writable layers."""
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFigures:
    """One pod (CRI `PodSandboxStats`). `usage` None: nothing of it runs."""

    sandbox: Sandbox
    time: int
    usage: Usage | None
    network: Network | None
    """None: the host's, or none but the loopback."""
    processes: int | None
    containers: Sequence[ContainerFigures]
    """Those that run."""
    place: Place | None = None
    """The pod's own cgroup, where it has one."""
