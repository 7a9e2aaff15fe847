"""Which way a field goes that an engine's API has no words for: by the front of the runtime, or nowhere.

One table. Where the runtime has a fronted twin (`crishim.runtime.host`) and host and runtime can do what is asked, the
container is run by the twin, and its wish (`crishim.runtime.oci`) tells the front; else the field is refused by name.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from crishim.engine.features import kernel_of, recurses_readonly, sets_mount_attributes
from crishim.engine.values import EngineFacts
from crishim.errors import RROUnsupported, UnsupportedField
from crishim.model import UserNamespace
from crishim.runtime.host import Host

HINT = "`crishim install-runtime` makes it possible"
"""What is added where nothing but the front is missing."""


_SHIFTS_OVERLAYS = (5, 19)
_OVERLAYS = ("overlay2", "overlayfs")
"""Storage drivers whose containers' root is an overlay: Docker's own, and containerd's snapshotter."""


class Beyond(enum.Enum):
    """What can be asked for beyond the words of an engine's API."""

    AMBIENT = "the engine's API knows no ambient capabilities"
    MOUNT_OPTIONS = "the engine's API carries no mount options"
    RECURSIVE_READ_ONLY = "engine, runtime or kernel cannot make a mount recursively read-only"
    HUGEPAGES = "the engine's API knows no huge pages"
    UNIFIED = "the engine's API knows no cgroup v2 keys"
    USER_NAMESPACE = "a user namespace per pod cannot be had through the engine's API"


Obstacle = Callable[[EngineFacts, Host, str], str]
"""Why not even the front helps, for a runtime of this engine on this host; empty: it does."""


def _none(facts: EngineFacts, host: Host, runtime: str) -> str:
    return ""


def _recursion(facts: EngineFacts, host: Host, runtime: str) -> str:
    if not sets_mount_attributes(facts):
        return f"Linux {facts.kernel} cannot (mount_setattr)"
    known = runtime in host.recursing or runtime in facts.readonly_recursion
    return "" if known else f"{runtime} does not say that it can (its `features` lack rro)"


def _unified(facts: EngineFacts, host: Host, runtime: str) -> str:
    return "" if facts.cgroup_version == 2 else "the host has cgroup version 1"


def _hugepages(facts: EngineFacts, host: Host, runtime: str) -> str:
    return "" if host.hugepage_sizes else "the host's cgroups do not limit huge pages"


def _user_namespace(facts: EngineFacts, host: Host, runtime: str) -> str:
    if kernel_of(facts) < _SHIFTS_OVERLAYS:
        return f"Linux {facts.kernel} cannot shift owners of an overlay (5.19 can)"
    return "" if facts.storage_driver in _OVERLAYS else f"{facts.storage_driver} has no overlay to shift owners of"


OBSTACLES: Mapping[Beyond, Obstacle] = {
    Beyond.AMBIENT: _none,
    Beyond.MOUNT_OPTIONS: _none,
    Beyond.RECURSIVE_READ_ONLY: _recursion,
    Beyond.HUGEPAGES: _hugepages,
    Beyond.UNIFIED: _unified,
    Beyond.USER_NAMESPACE: _user_namespace,
}


@dataclass(slots=True)
class Ways:
    """The ways that are open to the fields of one request; `take` is told of each field that needs one."""

    runtime: str = ""
    """The handler's, without a front."""
    twin: str | None = None
    """Its fronted twin."""
    recursive: bool = False
    """The engine itself makes mounts recursively read-only."""
    hugepage_sizes: frozenset[str] = frozenset()
    """Sizes of huge pages that the host can limit, as CRI writes them."""
    obstacles: Mapping[Beyond, str] = field(default_factory=dict)
    """What stands in the front's way, too."""
    user: UserNamespace | None = None
    """The pod's own user namespace, for its containers."""
    taken: bool = False
    """Something is the front's to carry."""

    def open(self, what: Beyond) -> bool:
        """Whether the front carries it."""
        return self.twin is not None and not self.obstacles.get(what)

    def take(self, what: Beyond, path: str) -> None:
        """Let the front carry what the field at `path` asks. Raises UnsupportedField or RROUnsupported."""
        if self.open(what):
            self.taken = True
            return
        words = f"{what.value}; {self.obstacles.get(what) or HINT}"
        if what is Beyond.RECURSIVE_READ_ONLY:
            raise RROUnsupported(f"{path}: {words}")
        raise UnsupportedField(words, field=path)

    @property
    def chosen(self) -> str:
        """The runtime by which the engine is to run the container."""
        return self.twin if self.taken and self.twin is not None else self.runtime


def make_ways(facts: EngineFacts, host: Host, runtime: str) -> Ways:
    """The ways for a container that `runtime` of this engine is to run."""
    return Ways(
        runtime=runtime,
        twin=host.twin_of(runtime),
        recursive=recurses_readonly(facts, runtime),
        hugepage_sizes=host.hugepage_sizes,
        obstacles={what: obstacle(facts, host, runtime) for what, obstacle in OBSTACLES.items()},
    )
