"""Names of the engine's objects, and the promise that two calls never make the same one at once.

The scheme is dockershim's, because cAdvisor, log agents and people read it:
`k8s_POD_<pod>_<namespace>_<uid>_<attempt>` and `k8s_<container>_<pod>_<namespace>_<uid>_<attempt>`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

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
        self._notes: list[set[str]] = []

    def __len__(self) -> int:
        return len(self._locks)

    def __repr__(self) -> str:
        return f"<Names {sorted(self._locks.keys())}>"

    @asynccontextmanager
    async def reserve(self, *names: str) -> AsyncIterator[None]:
        """Hold the names inside the block; all who ask for more than one name the same one first."""
        for note in self._notes:
            note.update(names)
        async with AsyncExitStack() as stack:
            for name in names:
                await stack.enter_async_context(self._locks.hold(name))
            yield

    @contextmanager
    def noting(self) -> Iterator[set[str]]:
        """Collects the names that are reserved at the block's begin or at any time in it."""
        note = set(self._locks.keys())
        self._notes.append(note)
        try:
            yield note
        finally:
            self._notes.remove(note)
