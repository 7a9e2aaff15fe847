"""Which objects a list's filter lets through: id prefix, state, labels, pod; all that are given must hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crishim.model import ContainerFilter, PodSandboxFilter
from crishim.runtime.objects import Container, Sandbox


def select_sandboxes(sandboxes: Iterable[Sandbox], wanted: PodSandboxFilter) -> list[Sandbox]:
    """The sandboxes that the filter lets through, in their order. Several may begin with the id asked for."""
    return [
        sandbox
        for sandbox in sandboxes
        if sandbox.id.startswith(wanted.id)
        and (wanted.state is None or sandbox.state == wanted.state)
        and _has(sandbox.record.config.labels, wanted.label_selector)
    ]


def select_containers(containers: Iterable[Container], wanted: ContainerFilter) -> list[Container]:
    """The containers that the filter lets through, in their order."""
    return [
        container
        for container in containers
        if container.id.startswith(wanted.id)
        and container.sandbox_id.startswith(wanted.pod_sandbox_id)
        and (wanted.state is None or container.state == wanted.state)
        and _has(container.record.config.labels, wanted.label_selector)
    ]


def _has(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())
