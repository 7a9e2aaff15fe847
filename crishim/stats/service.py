"""`Stats`: the verbs of statistics and metrics. None asks the engine; each reads its files in one visit to a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from crishim.aiokit.steps import step
from crishim.model import ContainerStatsFilter, PodSandboxStatsFilter
from crishim.runtime.index import Change
from crishim.runtime.objects import Container, Sandbox
from crishim.stats.figures import ContainerFigures, PodFigures
from crishim.stats.kernel import Kernel
from crishim.stats.layers import Layers
from crishim.stats.meter import Meter, PodMetrics
from crishim.stats.rates import Rates
from crishim.stats.reader import Members, Reader
from crishim.stats.sampler import EVERY, Sampler

if TYPE_CHECKING:
    from crishim.runtime.core import Runtime

_RECENT = int(EVERY * 0.9e9)
"""Nanoseconds for which a sample that an asker took makes another one unnecessary."""


class Stats:
    """Statistics of the runtime's pods and containers."""

    def __init__(self, runtime: Runtime, *, layer_budget: float = 2.0, kernel: Kernel | None = None) -> None:
        """`layer_budget`: percent of a core that counting of writable layers may take."""
        self._index = runtime.index
        self._kernel = kernel or Kernel()
        self._rates = Rates()
        self._layers = Layers(layer_budget, proc=self._kernel.proc, now=self._kernel.now)
        self._reader = Reader(self._kernel, self._rates, self._layers, lambda: runtime.link.last_facts)
        self._meter = Meter(self._kernel, self._reader)
        self._sampler = Sampler(self._sample)
        self._unsubscribe = runtime.index.subscribe(self._changed)

    def __repr__(self) -> str:
        return f"<Stats {self._layers!r} {self._sampler!r}>"

    async def close(self) -> None:
        """End what goes on in the background."""
        self._unsubscribe()
        await self._sampler.close()
        await self._layers.close()

    async def container(self, id_or_prefix: str) -> ContainerFigures:
        """ContainerStats. One that does not run has a writable layer and nothing else. Raises ContainerNotFound."""
        container = self._index.need_container(id_or_prefix)
        self._asked([container])
        with step("read figures"):
            return await asyncio.to_thread(self._reader.container, container)

    async def containers(self, wanted: ContainerStatsFilter) -> list[ContainerFigures]:
        """ListContainerStats: those that run, by a filter of which all conditions must hold."""
        chosen = [c for c in self._index.containers() if c.running and _wants(wanted, c)]
        self._asked(chosen)
        with step("read figures"):
            return await asyncio.to_thread(self._reader.containers, chosen)

    async def pod(self, id_or_prefix: str) -> PodFigures:
        """PodSandboxStats. Raises SandboxNotFound."""
        sandbox = self._index.need_sandbox(id_or_prefix)
        members = self._members(sandbox)
        self._asked(members)
        with step("read figures"):
            return await asyncio.to_thread(self._reader.pod, sandbox, members)

    async def pods(self, wanted: PodSandboxStatsFilter) -> list[PodFigures]:
        """ListPodSandboxStats: those that are READY, by a filter of which all conditions must hold."""
        chosen = [(s, self._members(s)) for s in self._index.sandboxes() if s.ready and _wants_pod(wanted, s)]
        self._asked(container for _, members in chosen for container in members)
        with step("read figures"):
            return await asyncio.to_thread(self._reader.pods, chosen)

    async def metrics(self) -> list[PodMetrics]:
        """ListPodSandboxMetrics: those that are READY, with their containers that run."""
        chosen = [(s, self._members(s)) for s in self._index.sandboxes() if s.ready]
        self._asked(container for _, members in chosen for container in members)
        with step("read metrics"):
            return await asyncio.to_thread(self._meter.pods, chosen)

    def _members(self, sandbox: Sandbox) -> Members:
        return [c for c in self._index.containers_of(sandbox.id) if c.running]

    def _asked(self, containers: Iterable[Container]) -> None:
        wanted = list(containers)
        if wanted:
            self._layers.want(wanted)
            self._sampler.asked()

    async def _sample(self) -> bool:
        running = [c for c in self._index.containers() if c.running]
        await asyncio.to_thread(self._reader.sample, running, _RECENT)
        ids = {thing.id for things in (self._index.containers(), self._index.sandboxes()) for thing in things}
        self._rates.keep(ids)
        self._layers.keep(ids)
        self._kernel.keep({t.id for ts in (self._index.containers(), self._index.sandboxes()) for t in ts if t.running})
        return bool(running)

    def _changed(self, change: Change) -> None:
        if change.before is not None and (change.after is None or not change.after.running):
            self._kernel.forget(change.before.id)  # its cgroup goes, and files of it are open
        if change.after is None and change.before is not None:
            self._rates.forget(change.before.id)
            self._layers.forget(change.before.id)


def _wants(wanted: ContainerStatsFilter, container: Container) -> bool:
    return (
        container.id.startswith(wanted.id)
        and container.sandbox_id.startswith(wanted.pod_sandbox_id)
        and _has(container.record.config.labels, wanted.label_selector)
    )


def _wants_pod(wanted: PodSandboxStatsFilter, sandbox: Sandbox) -> bool:
    return sandbox.id.startswith(wanted.id) and _has(sandbox.record.config.labels, wanted.label_selector)


def _has(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())
