"""Names of the engine's objects, and the promise that two calls never make the same one at once.

The scheme is dockershim's, because cAdvisor, log agents and people read it:
`k8s_POD_<pod>_<namespace>_<uid>_<attempt>` and `k8s_<container>_<pod>_<namespace>_<uid>_<attempt>`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from crishim.aiokit.locks import KeyedLocks
from crishim.model import ContainerMetadata, PodSandboxMetadata

SANDBOX_CONTAINER = "POD"


def make_sandbox_name(pod: PodSandboxMetadata) -> str:
    """The engine's name for a pod's sandbox."""
    return "_".join(("k8s", SANDBOX_CONTAINER, pod.name, pod.namespace, pod.uid, str(pod.attempt)))


def make_container_name(container: ContainerMetadata, pod: PodSandboxMetadata) -> str:
    """The engine's name for a container of a pod; unique by container name and its own attempt."""
    return "_".join(("k8s", container.name, pod.name, pod.namespace, pod.uid, str(container.attempt)))


def parse_name(name: str) -> tuple[str, str, str, str, int] | None:
    """Container name, pod, namespace, uid and attempt of an engine's name; None if it is not of the scheme."""
    parts = name.lstrip("/").split("_")
    if len(parts) < 6 or parts[0] != "k8s" or not parts[5].isdigit():
        return None
    return parts[1], parts[2], parts[3], parts[4], int(parts[5])


class Names:
    """Reserves names while they are being made: the second caller waits for the first, then decides."""

    def __init__(self) -> None:
        self._locks = KeyedLocks()

    @asynccontextmanager
    async def reserve(self, name: str) -> AsyncIterator[None]:
        """Hold the name inside the block."""
        async with self._locks.hold(name):
            yield

    def busy(self, name: str) -> bool:
        """Whether somebody is making this name at this moment; `name` with or without the engine's slash."""
        return self._locks.locked(name.lstrip("/"))
