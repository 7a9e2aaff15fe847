"""What the rest of crishim asks of a container engine, on one screen.

Values in and out are frozen dataclasses of `crishim.engine.values`; errors are the family of `crishim.errors`:

- `EngineUnavailable`: the engine cannot be reached or broke off; nothing is known about the call's effect.
- `EngineTimeout`: no answer within the call's limit; nothing is known about the call's effect.
- `EngineNotFound`, `EngineConflict`, `EngineError`: the engine answered and refused.

Every call may be cancelled: its connection is closed, nothing is left open. No call retries by itself.
Ids are full engine ids unless said otherwise. Implementations: `crishim.engine.docker`, `crishim.engine.simulated`;
what both must do is checked by `crishim.testing.engine_contract`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from crishim.engine.streams import EngineExec
from crishim.engine.values import (
    ContainerSpec,
    EngineContainer,
    EngineEvent,
    EngineFacts,
    EngineImage,
    EngineResources,
    ListedContainer,
    LogEntry,
    PullProgress,
    RegistryAuth,
)
from crishim.model.streams import ProcessStreams, TerminalSize, WantedStreams


class Engine(ABC):
    """A container engine on this machine."""

    @abstractmethod
    async def connect(self) -> EngineFacts:
        """Negotiate the API version, learn what the engine is, and refuse one that cannot carry pods.

        Called at the start and again after each outage; facts may differ then. Raises EngineUnavailable, or
        EngineUnsuitable with the reason (no common API version, rootless, userns-remap, Podman, remote, not Linux).
        """

    @abstractmethod
    def events(self) -> AbstractAsyncContextManager[AsyncIterator[EngineEvent]]:
        """Open the stream of container and image events. It is live once entered: what happens later is seen.

        The iterator ends by raising EngineUnavailable when the engine goes away; it never just stops.
        """

    @abstractmethod
    async def create(self, name: str, spec: ContainerSpec) -> str:
        """Create a container and return its id. EngineConflict: the name is taken. EngineNotFound: no such image."""

    @abstractmethod
    def foresee(self, container_id: str, name: str, spec: ContainerSpec, image: EngineImage) -> EngineContainer:
        """What `inspect` will tell of a container that was just created by `spec` of `image`, without asking.

        Of the paths only that of the log is there, and the time of creation is now's; limits are those that were given,
        whether the kernel has them or not.
        """

    @abstractmethod
    async def start(self, container_id: str) -> None:
        """Start a created container; a running one is left alone. EngineError carries the OCI runtime's words."""

    @abstractmethod
    async def kill(self, container_id: str, signal: str) -> None:
        """Send a signal (`SIGTERM`, `SIGRTMIN+3`, or a number). A container that does not run is no error."""

    @abstractmethod
    async def wait(self, container_id: str) -> None:
        """Return when the container does not run: at once if it does not, or when it is removed meanwhile.

        EngineNotFound if there is none at the time of the call.
        """

    @abstractmethod
    async def remove(self, container_id: str) -> None:
        """Kill and remove a container with its anonymous volumes. EngineNotFound if there is none.

        A removal that is already under way by someone else is waited for.
        """

    @abstractmethod
    async def update(self, container_id: str, resources: EngineResources) -> None:
        """Change the given resources (fields that are None stay), all or nothing as far as the engine is."""

    @abstractmethod
    async def inspect(self, id_or_name: str) -> EngineContainer:
        """One container as it is. EngineNotFound if there is none."""

    @abstractmethod
    async def read_file(self, container_id: str, path: str) -> bytes | None:
        """Content of a regular file (`path` absolute, links followed inside the container) in a container's file
        system, started or not; None if there is none, or something else, there.

        EngineNotFound if there is no such container. EngineError (RESOURCE_EXHAUSTED) above 4 MiB.
        """

    @abstractmethod
    async def has_path(self, container_id: str, path: str) -> bool:
        """Whether there is a file or folder (`path` absolute) in a container, with its mounts, started or not.

        EngineNotFound if there is no such container. EngineError where one of its mounts cannot be made.
        """

    @abstractmethod
    async def list_containers(self, labels: Mapping[str, str] | None = None, *, image: str = "") -> Sequence[str]:
        """Ids of all containers, running or not, that carry these labels (an empty value: the key alone counts) and
        were made from this image (id, or empty for any)."""

    @abstractmethod
    async def survey(self, labels: Mapping[str, str]) -> Sequence[ListedContainer]:
        """The same containers as by `list_containers`, each as the engine's list shows it."""

    @abstractmethod
    async def exec(self, container_id: str, command: Sequence[str], wanted: WantedStreams) -> EngineExec:
        """Prepare a process in a running container, as the container's user, with its environment; nothing runs yet.

        EngineNotFound; EngineConflict: it does not run, or is paused. ExecFailed: the engine refuses it at once.
        """

    @abstractmethod
    async def attach(
        self, container_id: str, wanted: WantedStreams, size: TerminalSize | None = None, *, ends_stdin: bool
    ) -> ProcessStreams:
        """Connect to the streams of a running container's first process; what it printed before is not repeated.

        `wanted.tty` is as the container was created. `ends_stdin`: closing these streams' stdin closes the container's
        for good (`stdin_once`); else it stays open for others. EngineNotFound; EngineConflict: it does not run.
        """

    @abstractmethod
    def read_log(
        self, container_id: str, since: int, *, tty: bool
    ) -> AbstractAsyncContextManager[AsyncIterator[Sequence[LogEntry]]]:
        """What a container printed at `since` (nanoseconds) or later, as the engine kept it, some entries at a time.

        Goes on while the container runs, and may end before it does. `tty` is as it was created. Entering raises
        EngineNotFound, and EngineError where the container's log driver cannot be read.
        """

    @abstractmethod
    async def list_images(self) -> Sequence[EngineImage]:
        """All images with a name or digest, or used by nothing (dangling ones included, intermediate layers not)."""

    @abstractmethod
    async def inspect_image(self, reference: str) -> EngineImage:
        """An image by name, digest or id. EngineNotFound if there is none."""

    @abstractmethod
    def pull(
        self, reference: str, auth: RegistryAuth | None
    ) -> AbstractAsyncContextManager[AsyncIterator[PullProgress]]:
        """Pull `name:tag` or `name@digest`; leaving the context early makes the engine stop.

        Entering waits for the engine's first word, which a registry can hold up for long. An error is raised there or
        by the iterator: RegistryUnavailable, ImageNotFound, EngineError (kind PERMISSION_DENIED for missing or wrong
        credentials), or InvalidArgument for what is no reference.
        """

    @abstractmethod
    async def remove_image(self, reference: str) -> None:
        """Remove a name, or by id an image with all its names. EngineNotFound; EngineConflict if it is in use."""

    @abstractmethod
    async def load_image(self, archive: bytes) -> None:
        """Load a `docker save` archive."""

    @abstractmethod
    async def close(self) -> None:
        """Close all connections. Calls under way end with EngineUnavailable."""
