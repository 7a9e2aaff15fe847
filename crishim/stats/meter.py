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
    Labels,
    Metered,
    Sample,
    sample_detail,
    sample_disk,
    sample_network,
    sample_processes,
    sample_spec,
    sample_usage,
)


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
        figures = self._reader.pods(pods)
        disks: dict[str, Disk] = {}
        seen: set[Labels] = set()
        return each(figures, lambda pod: self._pod(pod, disks, seen))

    def _pod(self, pod: PodFigures, disks: dict[str, Disk], seen: set[Labels]) -> PodMetrics:
        sandbox, metadata = pod.sandbox, pod.sandbox.metadata
        samples: list[Sample] = []
        # Without a cgroup of its own the pod is told by its containers: a sum of theirs would count them twice.
        if pod.place is not None and pod.usage is not None:
            samples += sample_usage(pod.usage)
            samples += sample_detail(self._kernel.detail(pod.place))
            if pod.processes is not None:
                samples.append(("processes", pod.processes, ()))
        if pod.network is not None:
            samples += sample_network(pod.network)
        path = pod.place.path if pod.place is not None else f"/{sandbox.id}"
        labels = Labels("", path, "", "", metadata.namespace, metadata.name)
        if labels in seen:
            # Two sandboxes of one pod share its cgroup, and a scrape with two equal samples fails as a whole.
            labels = replace(labels, id=f"{path}/{sandbox.id}")
        seen.add(labels)
        containers = each(pod.containers, lambda container: self._container(sandbox, container, disks))
        return PodMetrics(Metered(sandbox.id, labels, samples), containers)

    def _container(self, sandbox: Sandbox, figures: ContainerFigures, disks: dict[str, Disk]) -> Metered | None:
        container, place = figures.container, figures.place
        if place is None or figures.usage is None:
            return None
        if (disk := disks.get(figures.mountpoint)) is None:
            disk = disks[figures.mountpoint] = look_at_disk(self._kernel.proc, figures.mountpoint)
        samples = [
            *sample_usage(figures.usage),
            *sample_detail(self._kernel.detail(place)),
            *sample_processes(self._kernel.processes(place, container.live.pid)),
            *sample_disk(disk, figures.layer),
            *sample_spec(container.live.resources, container.started_at, figures.usage.time),
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
        return Metered(container.id, labels, samples)
