"""What happens inside the simulated engine: containers come, run and go, in steps that nothing interrupts.

No call, no waiting, no failure on order: those are `engine` and `gate`.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from crishim.engine.simulated.clock import Clock
from crishim.engine.simulated.container import SimulatedContainer, make_container
from crishim.engine.simulated.events import EventHub
from crishim.engine.simulated.images import ImageStore
from crishim.engine.simulated.program import parse_signal
from crishim.engine.simulated.spool import append, entries, read_files
from crishim.engine.values import ContainerSpec, EngineContainer, EngineImage, LogEntry
from crishim.errors import EngineConflict, EngineError, EngineNotFound, Kind

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+")
_FIRST_PID = (1 << 23) + 1
"""Above the largest number that Linux gives to a process (4194304)."""


class Machine:
    """Containers and images, their changes, and the events that tell of them."""

    def __init__(
        self,
        clock: Clock,
        images: Iterable[EngineImage],
        *,
        runtimes: tuple[str, ...],
        seed: str,
        missing: tuple[str, ...],
        root: Path | None,
    ) -> None:
        self.images = ImageStore(images)
        self.hub = EventHub()
        self.containers: dict[str, SimulatedContainer] = {}
        self._clock = clock
        self._runtimes = runtimes
        self._seed = seed
        self.missing = missing
        self._root = root
        self._names: dict[str, str] = {}
        self._made = 0
        self._next_pid = _FIRST_PID
        self._last_time = 0

    def find(self, id_or_name: str) -> SimulatedContainer:
        """A container by id, name, or unique prefix of an id. Raises EngineNotFound."""
        if (found := self.containers.get(id_or_name)) is not None:
            return found
        if (holder := self._names.get(id_or_name.removeprefix("/"))) is not None:
            return self.containers[holder]
        fitting = [i for i in self.containers if id_or_name and i.startswith(id_or_name)]
        if len(fitting) == 1:
            return self.containers[fitting[0]]
        if fitting:
            raise EngineError(f"multiple ids found with prefix {id_or_name}", kind=Kind.INVALID_ARGUMENT)
        raise EngineNotFound(f"No such container: {id_or_name}", container=id_or_name)

    def select(self, labels: Mapping[str, str] | None, image: str) -> list[str]:
        """Ids of the containers with these labels and of this image, the newest first."""
        wanted = tuple((labels or {}).items())
        try:
            image_id = self.images.find(image).id if image else ""
        except EngineNotFound:
            return []
        return [
            container.id
            for container in reversed(self.containers.values())
            if (not image_id or container.shown.image_id == image_id) and _carries(container.shown.labels, wanted)
        ]

    def create(self, name: str, spec: ContainerSpec) -> str:
        """Make a container and return its id."""
        name = name.removeprefix("/")
        if not _NAME.fullmatch(name):
            raise EngineError(f"invalid container name ({name})", kind=Kind.INVALID_ARGUMENT)
        if (holder := self._names.get(name)) is not None:
            raise EngineConflict(f"the name {name} is in use by container {holder}", container=holder)
        if spec.runtime and spec.runtime not in self._runtimes:
            raise EngineError(f"unknown or invalid runtime name: {spec.runtime}", kind=Kind.INVALID_ARGUMENT)
        image = self.images.find(spec.image)
        container_id = hashlib.sha256(f"container {self._seed} {self._made}".encode()).hexdigest()
        container = self._make(container_id, name, spec, image)
        self._made += 1
        if container.files is not None:
            container.files.mkdir(parents=True)
            for file in ("resolv.conf", "hosts"):
                (container.files / file).write_text("# made by the simulated engine\n")
        self.containers[container_id] = container
        self._names[name] = container_id
        self.tell(container, "create")
        return container_id

    def _make(self, container_id: str, name: str, spec: ContainerSpec, image: EngineImage) -> SimulatedContainer:
        files = self._root / "containers" / container_id if self._root is not None else None
        kind, _, other = spec.network_mode.partition(":")
        joined = self.containers.get(other) if kind == "container" else None
        return make_container(
            container_id, name, spec, image, self.now(), missing=self.missing, files=files, joined=joined
        )

    def foresee(self, container_id: str, name: str, spec: ContainerSpec, image: EngineImage) -> EngineContainer:
        """How a container that was just created by this spec is shown."""
        return self._make(container_id, name, spec, image).view()

    def _runs(self, id_or_name: str) -> bool:
        try:
            return self.find(id_or_name).running
        except EngineNotFound:
            return False

    def start(self, container: SimulatedContainer) -> None:
        """Start a container's program, unless it runs."""
        if container.running:
            return
        for mode in (container.spec.network_mode, container.spec.ipc_mode, container.spec.pid_mode):
            kind, _, other = mode.partition(":")
            if kind == "container" and not self._runs(other):
                # A conflict even where the other is gone: "not found" would be read as the container's own.
                raise EngineConflict(f"cannot join namespaces of a container that is not running: {other}")
        program = container.program
        if program.missing:
            executable = (container.shown.entrypoint + container.shown.command)[0]
            error = f'failed to create task: exec: "{executable}": no such file or directory'
            container.could_not_begin(127, error)
            raise EngineError(error, kind=Kind.INVALID_ARGUMENT, container=container.id)
        container.began(self.now(), self._next_pid)
        self._next_pid += 1
        if container.log_file is not None:
            container.log_file.touch()
        self.tell(container, "start")
        self.say(container, program.output, "stdout")
        if program.ends_after == 0:
            self.end(container, program.exit_code)
        elif program.ends_after is not None:
            container.timer = self._clock.call_later(program.ends_after, lambda: self.end(container, program.exit_code))

    def say(self, container: SimulatedContainer, data: bytes, stream: str) -> None:
        """The program of a container prints something; without files for containers it is lost."""
        if data and container.log_file is not None:
            append(container.log_file, container.spec.log_spool, data, stream, self.now)
        elif container.shown.log_driver not in ("json-file", "none"):
            container.kept += entries(data, stream, self.now)
        container.wake_readers()

    def log(self, container: SimulatedContainer) -> list[LogEntry]:
        """All that is kept of what a container has printed. Raises EngineError where the driver keeps nothing."""
        if container.shown.log_driver == "none":
            raise EngineError("configured logging driver does not support reading", kind=Kind.UNIMPLEMENTED)
        return read_files(container.log_file) if container.log_file is not None else container.kept

    def kill(self, container: SimulatedContainer, signal: str) -> None:
        """Send a signal to a container's program, if it runs."""
        number = parse_signal(signal)
        if not container.running:
            return
        self.tell(container, "kill", signal=str(number))
        code = container.program.exit_code_on(number)
        if code is not None:
            self.end(container, code)

    def end(self, container: SimulatedContainer, exit_code: int, *, oom_killed: bool = False) -> None:
        """The program of a running container ends."""
        if oom_killed:
            self.tell(container, "oom")
        container.ended(self.now(), exit_code, oom_killed=oom_killed)
        self.tell(container, "die", exitCode=str(exit_code))

    def end_input(self, container: SimulatedContainer) -> None:
        """Close a container's standard input for good: `cat` ends."""
        if container.running and container.echoes:
            container.input_ended = True
            self.end(container, 0)
        container.input_ended = True

    def restart(self, container: SimulatedContainer) -> None:
        """End the program if it runs, and begin another process."""
        if container.running:
            self.tell(container, "kill", signal="15")
            self.end(container, 137 if container.program.ignores_term else 143)
            self.tell(container, "stop")
        self.start(container)
        self.tell(container, "restart")

    def remove(self, container: SimulatedContainer) -> None:
        """Kill and remove a container."""
        if container.running:
            self.tell(container, "kill", signal="9")
            self.end(container, 137)
        del self.containers[container.id]
        del self._names[container.name]
        if container.files is not None:
            shutil.rmtree(container.files)
        container.answer_waiters()
        self.tell(container, "destroy")

    def remove_image(self, reference: str) -> None:
        """Remove a name or an image, which no container may be made from."""
        image = self.images.find(reference)
        users = [container.name for container in self.containers.values() if container.shown.image_id == image.id]
        image, gone, deleted = self.images.remove(reference, users)
        for name in gone:
            self.hub.emit("image", "untag", image.id, self.now(), {"name": name})
        if deleted:
            self.hub.emit("image", "delete", image.id, self.now(), {"name": image.id})

    def tell(self, container: SimulatedContainer, action: str, **more: Any) -> None:
        """Emit an event of a container."""
        attributes = {**container.shown.labels, "name": container.name, "image": container.shown.image, **more}
        self.hub.emit("container", action, container.id, self.now(), attributes)

    def now(self) -> int:
        """The clock's time, but never the same twice: what happens later has a later time, though the clock stands."""
        self._last_time = max(self._clock.now_ns(), self._last_time + 1)
        return self._last_time


def _carries(labels: Mapping[str, str], wanted: Iterable[tuple[str, str]]) -> bool:
    return all(key in labels and (not value or labels[key] == value) for key, value in wanted)
