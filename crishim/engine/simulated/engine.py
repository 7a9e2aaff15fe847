"""The simulated engine: what it does as an engine. What a test does to it is in `controls`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from crishim.engine.api import Engine
from crishim.engine.simulated.clock import Clock, RealClock
from crishim.engine.simulated.controls import Controls
from crishim.engine.simulated.events import Listener
from crishim.engine.simulated.exec import SimulatedAttachment, SimulatedExec, need_running
from crishim.engine.simulated.facts import default_facts
from crishim.engine.simulated.faults import Fault
from crishim.engine.simulated.gate import Gate
from crishim.engine.simulated.images import default_files, default_images, familiar, made_up
from crishim.engine.simulated.machine import Machine
from crishim.engine.simulated.program import DEFAULT_MISSING
from crishim.engine.simulated.reading import read_log
from crishim.engine.twins import twin_name
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
from crishim.errors import EngineError, EngineNotFound, Kind
from crishim.model.streams import TerminalSize, WantedStreams


def _below(paths: Iterable[str], folder: str) -> set[str]:
    """What the paths that are, or lie below, `folder` have after it."""
    top = folder.rstrip("/")
    return {path.removeprefix(top) for path in paths if path == top or path.startswith(f"{top}/")}


class SimulatedEngine(Controls, Engine):
    """An engine in memory. All arguments have defaults.

    `clock`: where time comes from (the machine's). `images`: what is there at the start (a shell and a pause image).
    `facts`: what `connect` answers. `seed`: another one gives other ids. `missing`: prefixes of executables that do not
    exist. `root`: a folder in which each container gets files for resolv.conf, hosts and its log; None: it has none,
    and the paths that inspect shows are empty.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        images: Iterable[EngineImage] | None = None,
        facts: EngineFacts | None = None,
        seed: str = "",
        missing: Sequence[str] = DEFAULT_MISSING,
        root: Path | None = None,
    ) -> None:
        self.clock = clock or RealClock()
        self.facts = facts or default_facts(str(root or "/"))
        self.registry_failures: dict[str, Exception] = {}
        """References (as Docker shows them) whose pull ends with this error."""
        self.image_files = default_files()
        """Files that containers are found to have, by image id and absolute path."""
        self.pulls_under_way = 0
        """How many pulls were begun and not left."""
        machine = Machine(
            self.clock,
            default_images() if images is None else images,
            runtimes=(*self.facts.runtimes, *map(twin_name, self.facts.twins)),
            seed=seed,
            missing=tuple(missing),
            root=root,
        )
        super().__init__(Gate(self.clock), machine)

    def __repr__(self) -> str:
        state = "up" if self._gate.up else "down"
        return f"<SimulatedEngine {state} containers={len(self._machine.containers)} images={len(self.images)}>"

    async def connect(self) -> EngineFacts:
        """The facts given at construction."""
        return await self._gate.answer("connect", lambda: self.facts)

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[EngineEvent]]:
        """A stream of its own for each caller, without bound."""
        return self._events()

    @asynccontextmanager
    async def _events(self) -> AsyncGenerator[AsyncIterator[EngineEvent], None]:
        listener = Listener()
        try:
            await self._gate.answer("events", lambda: self._machine.hub.listeners.add(listener))
            yield listener
        finally:
            self._machine.hub.listeners.discard(listener)

    async def create(self, name: str, spec: ContainerSpec) -> str:
        """Create a container; see `crishim.engine.simulated.program` for what it will do."""
        return await self._gate.answer("create", lambda: self._machine.create(name, spec), name, spec)

    def foresee(self, container_id: str, name: str, spec: ContainerSpec, image: EngineImage) -> EngineContainer:
        """As the books have it."""
        return self._machine.foresee(container_id, name, spec, image)

    async def start(self, container_id: str) -> None:
        """Start a container's program. A missing one: EngineError; the container stays "created", with code 127."""
        await self._gate.answer("start", lambda: self._machine.start(self._machine.find(container_id)), container_id)

    async def kill(self, container_id: str, signal: str) -> None:
        """Send a signal to a container's program."""
        await self._gate.answer(
            "kill", lambda: self._machine.kill(self._machine.find(container_id), signal), container_id, signal
        )

    async def wait(self, container_id: str) -> None:
        """Return when the container does not run. EngineNotFound if there is none at the time of the call."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters: set[asyncio.Future[None]] = set()

        def begin() -> None:
            nonlocal waiters
            container = self._machine.find(container_id)
            if container.running:
                waiters = container.waiters
                waiters.add(waiter)
            else:
                waiter.set_result(None)

        try:
            await self._gate.answer("wait", begin, container_id)
            await self._gate.hold(waiter)
        finally:
            waiters.discard(waiter)

    async def remove(self, container_id: str) -> None:
        """Kill and remove a container."""
        await self._gate.answer("remove", lambda: self._machine.remove(self._machine.find(container_id)), container_id)

    async def update(self, container_id: str, resources: EngineResources) -> None:
        """Change resources in the books. EngineError where memory would be above the limit of memory and swap."""

        def change() -> None:
            container = self._machine.find(container_id)
            container.update(resources)
            self._machine.tell(container, "update")

        await self._gate.answer("update", change, container_id, resources)

    async def inspect(self, id_or_name: str) -> EngineContainer:
        """A container by id, name, or unique prefix of an id."""
        return await self._gate.answer("inspect", lambda: self._machine.find(id_or_name).view(), id_or_name)

    async def read_file(self, container_id: str, path: str) -> bytes | None:
        """A file of the container's image, out of `image_files`."""
        return await self._gate.answer(
            "read_file",
            lambda: self.image_files.get(self._machine.find(container_id).shown.image_id, {}).get(path),
            container_id,
            path,
        )

    async def has_path(self, container_id: str, path: str) -> bool:
        """Whether a file of that path, or below it, is in `image_files`, of the container's image or of one mounted."""

        def look() -> bool:
            container = self._machine.find(container_id)
            files = {*self.image_files.get(container.shown.image_id, {})}
            for mount in container.spec.mounts:
                shown = _below(self.image_files.get(mount.source, {}), f"/{mount.image_subpath}")
                if mount.image_subpath and not shown:
                    raise EngineError(f"cannot access path {mount.image_subpath}", kind=Kind.INTERNAL)
                files |= {mount.target, *(mount.target + rest for rest in shown)}
            return bool(_below(files, path))

        return await self._gate.answer("has_path", look, container_id, path)

    async def list_containers(self, labels: Mapping[str, str] | None = None, *, image: str = "") -> Sequence[str]:
        """Ids of containers, the newest first."""
        return await self._gate.answer(
            "list_containers", lambda: self._machine.select(labels, image), labels, kwargs={"image": image}
        )

    async def survey(self, labels: Mapping[str, str]) -> Sequence[ListedContainer]:
        """The newest first."""

        def look() -> list[ListedContainer]:
            shown = [self._machine.containers[i].view() for i in self._machine.select(labels, "")]
            return [ListedContainer(id=c.id, names=(c.name,), phase=c.phase, paused=c.paused) for c in shown]

        return await self._gate.answer("survey", look, labels)

    async def exec(self, container_id: str, command: Sequence[str], wanted: WantedStreams) -> SimulatedExec:
        """Prepare a process; see `crishim.engine.simulated.exec` for what it will do."""

        def prepare() -> SimulatedExec:
            container = self._machine.find(container_id)
            need_running(container)
            return SimulatedExec(self._gate, self.clock, container, command, wanted, self._machine.missing)

        return await self._gate.answer("exec", prepare, container_id, command, wanted)

    async def attach(
        self, container_id: str, wanted: WantedStreams, size: TerminalSize | None = None, *, ends_stdin: bool
    ) -> SimulatedAttachment:
        """Connect to a container's streams. What is not read waits without bound."""

        made: list[SimulatedAttachment] = []

        def connect() -> SimulatedAttachment:
            container = self._machine.find(container_id)
            need_running(container)
            end = (lambda: self._machine.end_input(container)) if ends_stdin and wanted.stdin else None
            made.append(SimulatedAttachment(self._gate, container, wanted, end_input=end))
            made[0].size = size
            return made[0]

        try:
            return await self._gate.answer("attach", connect, container_id, wanted)
        except BaseException:
            for attachment in made:
                await attachment.close()
            raise

    def read_log(
        self, container_id: str, since: int, *, tty: bool
    ) -> AbstractAsyncContextManager[AsyncIterator[Sequence[LogEntry]]]:
        """What a container printed; of files that were deleted while it is read, as many entries are passed over."""
        return read_log(self._gate, self._machine, container_id, since, tty=tty)

    async def list_images(self) -> Sequence[EngineImage]:
        """All images."""
        return await self._gate.answer("list_images", self.images.all)

    async def inspect_image(self, reference: str) -> EngineImage:
        """An image by name, digest, id or unique prefix of an id."""
        return await self._gate.answer("inspect_image", lambda: self.images.find(reference), reference)

    def pull(
        self, reference: str, auth: RegistryAuth | None
    ) -> AbstractAsyncContextManager[AsyncIterator[PullProgress]]:
        """Pull any reference: behind each is an image, always the same. Scripted faults strike in the stream."""
        return self._pull(reference, auth)

    @asynccontextmanager
    async def _pull(
        self, reference: str, auth: RegistryAuth | None
    ) -> AsyncGenerator[AsyncIterator[PullProgress], None]:
        fault = self._gate.enter("pull", reference, auth)
        await asyncio.sleep(0)
        self._gate.check()
        stream = self._pull_stream(reference, fault)
        self.pulls_under_way += 1
        try:
            yield stream
        finally:
            self.pulls_under_way -= 1
            await stream.aclose()

    async def _pull_stream(self, reference: str, fault: Fault | None) -> AsyncGenerator[PullProgress, None]:
        name = familiar(reference)
        image = made_up(reference)
        layer, size = image.id[7:19], image.size
        yield PullProgress(layer=layer, stage="Pulling fs layer")
        await self._gate.before(fault)
        self._gate.check()
        if (error := self.registry_failures.get(name) or self.registry_failures.get(reference)) is not None:
            raise error
        try:
            self.images.find(name)
            stages = [PullProgress(layer=layer, stage="Already exists")]
        except EngineNotFound:
            stages = [
                PullProgress(layer=layer, stage="Downloading", current=size // 2, total=size),
                PullProgress(layer=layer, stage="Verifying Checksum"),
                PullProgress(layer=layer, stage="Download complete"),
                PullProgress(layer=layer, stage="Extracting", current=size, total=size),
            ]
        for progress in stages:
            await asyncio.sleep(0)
            self._gate.check()
            yield progress
        if stages[0].stage != "Already exists":
            image = self.images.add(image)
        self._machine.hub.emit("image", "pull", reference, self._machine.now(), {"name": name})
        await self._gate.after(fault)
        yield PullProgress(layer=layer, stage="Pull complete")

    async def remove_image(self, reference: str) -> None:
        """Remove a name, or by id an image with all its names. EngineConflict if a container was made from it."""
        await self._gate.answer("remove_image", lambda: self._machine.remove_image(reference), reference)

    async def load_image(self, archive: bytes) -> None:
        """Load a `docker save` archive: configuration and names are read, layers are not."""

        def load() -> None:
            for image in self.images.load(archive):
                self._machine.hub.emit("image", "load", image.id, self._machine.now(), {"name": image.id})

        await self._gate.answer("load_image", load, archive)

    async def close(self) -> None:
        """Close for good."""
        self._closed = True
        self.go_down("the simulated engine's connections were closed")
