"""Reads the metrics of pods and their containers, in a thread."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from crishim.runtime.objects import Sandbox
from crishim.stats.disk import Disk, look_at_disk
from crishim.stats.figures import ContainerFigures, PodFigures
from crishim.stats.kernel import Kernel
from crishim.stats.reader import Members, Reader, each
from crishim.stats.samples import (
    SECOND,
    Group,
    Labels,
    Metered,
    sample_count,
    sample_detail,
    sample_disk,
    sample_network,
    sample_processes,
    sample_seen,
    sample_spec,
    sample_usage,
)
from crishim.stats.values import Usage


class PodMetrics(NamedTuple):
    """The metrics of one pod (CRI `PodSandboxMetrics`)."""

    pod: Metered
    containers: list[Metered]


class Meter:
    """What `Reader` reads, and what metrics tell beyond. For threads."""

    def __init__(self, kernel: Kernel, reader: Reader) -> None:
        self._kernel = kernel
        self._reader = reader

    def pods(self, pods: Iterable[tuple[Sandbox, Members]]) -> list[PodMetrics]:
        """The metrics of these pods."""
        figures = self._reader.pods(pods, sums=False)
        disks: dict[str, Disk] = {}
        seen: set[Labels] = set()
        return each(figures, lambda pod: self._pod(pod, disks, seen))

    def _pod(self, pod: PodFigures, disks: dict[str, Disk], seen: set[Labels]) -> PodMetrics:
        sandbox, metadata = pod.sandbox, pod.sandbox.metadata
        groups: list[Group] = []
        # Without a cgroup of its own the pod is told by its containers: a sum of theirs would count them twice (and is
        # not read).
        if pod.place is not None and pod.usage is not None:
            groups += _usage(pod.usage), Group(sample_detail, (self._kernel.detail(pod.place),))
            if pod.processes is not None:
                groups.append(Group(sample_count, (pod.processes,)))
        if pod.network is not None:
            groups.append(Group(sample_network, pod.network.interfaces))
        path = pod.place.path if pod.place is not None else f"/{sandbox.id}"
        labels = Labels("", path, "", "", metadata.namespace, metadata.name)
        if labels in seen:
            # Two sandboxes of one pod share its cgroup, and a scrape with two equal samples fails as a whole.
            labels = replace(labels, id=f"{path}/{sandbox.id}")
        seen.add(labels)
        containers = each(pod.containers, lambda container: self._container(sandbox, container, disks))
        return PodMetrics(Metered(sandbox.id, labels, groups), containers)

    def _container(self, sandbox: Sandbox, figures: ContainerFigures, disks: dict[str, Disk]) -> Metered | None:
        container, place = figures.container, figures.place
        if place is None or figures.usage is None:
            return None
        if (disk := disks.get(figures.mountpoint)) is None:
            disk = disks[figures.mountpoint] = look_at_disk(self._kernel.proc, figures.mountpoint)
        groups = [
            _usage(figures.usage),
            Group(sample_detail, (self._kernel.detail(place),)),
            Group(sample_processes, (self._kernel.processes(place, container.live.pid),)),
            Group(sample_disk, (disk, figures.layer)),
            Group(sample_spec, (container.live.resources, container.started_at)),
            Group(sample_seen, (figures.usage.time // SECOND,)),
        ]
        image = container.record.config.image
        labels = Labels(
            container=container.name,
            id=place.path,
            image=(image.user_specified_image or image.image) if image else "",
            name=container.live.name.lstrip("/"),
            namespace=sandbox.metadata.namespace,
            pod=sandbox.metadata.name,
        )
        return Metered(container.id, labels, groups)


def _usage(usage: Usage) -> Group:
    """Without the time and what was used of late, which metrics do not tell."""
    return Group(sample_usage, (Usage(0, *usage[1:-1]),))
