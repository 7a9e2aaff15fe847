"""Reads the figures of containers and pods, in a thread. What ends while it is looked at is left out.

One bad object never fails a list: whatever goes wrong with it is told in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from crishim.engine.values import EngineFacts
from crishim.images.image_fs import storage_folder
from crishim.runtime.objects import Container, Sandbox
from crishim.stats.figures import ContainerFigures, PodFigures
from crishim.stats.kernel import Kernel
from crishim.stats.layers import Layers
from crishim.stats.place import Place
from crishim.stats.rates import Rates
from crishim.stats.values import Network, Usage, Vanished, add

log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")
Members = Sequence[Container]
"""The running containers of a pod."""


class Reader:
    """All methods read files, and belong to threads; several may read at the same time."""

    def __init__(self, kernel: Kernel, rates: Rates, layers: Layers, facts: Callable[[], EngineFacts | None]) -> None:
        """`facts`: what the engine last said of itself."""
        self._kernel = kernel
        self._rates = rates
        self._layers = layers
        self._facts = facts

    def container(self, container: Container) -> ContainerFigures:
        """One container, also one that does not run."""
        mountpoint = self._mountpoint()
        return self._running(container, mountpoint) or ContainerFigures(
            container=container, usage=None, layer=self._layers.look(container), mountpoint=mountpoint
        )

    def containers(self, containers: Iterable[Container]) -> list[ContainerFigures]:
        """Those of them that run."""
        mountpoint = self._mountpoint()
        return each(containers, lambda container: self._running(container, mountpoint))

    def pod(self, sandbox: Sandbox, members: Members) -> PodFigures:
        """One pod."""
        return self._pod(sandbox, members, self._mountpoint())

    def pods(self, pods: Iterable[tuple[Sandbox, Members]], *, sums: bool = True) -> list[PodFigures]:
        """Several pods. Without `sums`, one that has no cgroup of its own is told without figures of its own."""
        mountpoint = self._mountpoint()
        return each(pods, lambda pod: self._pod(*pod, mountpoint, sums=sums))

    def sample(self, containers: Iterable[Container], older_than: int) -> None:
        """Take samples of processor time where the newest is older than so many nanoseconds."""
        now = self._kernel.now()
        each((c for c in containers if self._rates.age(c.id, now) >= older_than), self._sample)

    def _mountpoint(self) -> str:
        return str(storage_folder(self._facts()))

    def _sample(self, container: Container) -> None:
        cpu = self._kernel.cpu(self._kernel.place(container.id, container.live.pid))
        if cpu is not None:
            self._rates.note(container.id, container.live.pid, self._kernel.now(), cpu)

    def _running(self, container: Container, mountpoint: str) -> ContainerFigures | None:
        """The figures of a container that runs; None for one that does not, or not any more."""
        if not container.running:
            return None
        try:
            place = self._kernel.place(container.id, container.live.pid)
            usage = self._with_rate(container.id, container.live.pid, self._kernel.usage(place))
        except Vanished:
            self._kernel.forget(container.id)
            return None
        layer = self._layers.look(container)
        return ContainerFigures(container=container, usage=usage, layer=layer, mountpoint=mountpoint, place=place)

    def _with_rate(self, key: str, life: int, usage: Usage) -> Usage:
        if usage.cpu is None:
            return usage
        return Usage(*usage[:-1], self._rates.note(key, life, usage.time, usage.cpu))  # its last figure, and quickly

    def _pod(self, sandbox: Sandbox, members: Members, mountpoint: str, *, sums: bool = True) -> PodFigures:
        containers = each(members, lambda container: self._running(container, mountpoint))
        own = self._sandbox_place(sandbox)
        place = self._pod_place(sandbox, own, containers)
        told = place is not None or sums
        counted = [place] if place else [*([own] if own else []), *(c.place for c in containers)]
        return PodFigures(
            sandbox=sandbox,
            time=self._kernel.now(),
            usage=self._pod_usage(sandbox, place, own, containers) if told else None,
            network=self._network(sandbox, containers),
            processes=self._count(counted) if told else None,
            containers=containers,
            place=place,
        )

    def _sandbox_place(self, sandbox: Sandbox) -> Place | None:
        if sandbox.anchored:
            return None
        try:
            return self._kernel.place(sandbox.id, sandbox.pid)
        except Vanished:
            self._kernel.forget(sandbox.id)
            return None

    def _pod_place(self, sandbox: Sandbox, own: Place | None, containers: list[ContainerFigures]) -> Place | None:
        """The cgroup that the pod was given; None where it was given none, and where nobody lives in it any more."""
        linux = sandbox.record.config.linux
        if linux is None or not linux.cgroup_parent.strip("/"):
            return None
        inside = own or next((c.place for c in containers if c.place is not None), None)
        return inside.above if inside is not None else None

    def _pod_usage(
        self, sandbox: Sandbox, place: Place | None, own: Place | None, containers: list[ContainerFigures]
    ) -> Usage | None:
        """The pod's cgroup, or the sum of its sandbox and its containers."""
        try:
            if place is not None:
                return self._with_rate(sandbox.id, 0, self._kernel.usage(place))
            parts = [c.usage for c in containers if c.usage is not None]
            if own is not None:
                parts.append(self._kernel.counts(own))
        except Vanished:
            return None
        # Whoever comes or goes takes a counter along: the sum of others is another counter.
        life = hash(frozenset(c.container.live.pid for c in containers))
        return self._with_rate(sandbox.id, life, add(parts, self._kernel.now())) if parts else None

    def _network(self, sandbox: Sandbox, containers: list[ContainerFigures]) -> Network | None:
        """By the sandbox's process; where it has none, by that of a container: they are all in one namespace."""
        if sandbox.host_network:
            return None
        holder = (sandbox.id, sandbox.pid)
        if sandbox.anchored and containers:
            holder = (containers[0].container.id, containers[0].container.live.pid)
        if not holder[1]:
            return None
        try:
            return self._kernel.network(*holder)
        except Vanished:
            return None

    def _count(self, places: Iterable[Place | None]) -> int | None:
        counts = [self._kernel.count(place) for place in places if place is not None]
        return sum(counts) if counts else None


def each(objects: Iterable[T], read: Callable[[T], R | None]) -> list[R]:
    """What `read` makes of each object, without those that have gone or that cannot be read."""
    found = []
    for thing in objects:
        try:
            figures = read(thing)
        except Vanished:
            continue
        except Exception:
            # A file that is not what it was ever known to be must not hide the others.
            log.exception("an object's figures cannot be read")
            continue
        if figures is not None:
            found.append(figures)
    return found
