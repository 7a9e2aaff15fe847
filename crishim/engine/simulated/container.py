"""A simulated container: its state, and how inspect shows it."""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from crishim.engine.created import show_created
from crishim.engine.simulated.clock import Timer
from crishim.engine.simulated.program import DEFAULT_MISSING, Program, parse_program
from crishim.engine.values import ContainerPhase, ContainerSpec, EngineContainer, EngineImage, EngineResources, LogEntry
from crishim.errors import EngineError, Kind

_DEFAULT_SHARES = 1024
"""What the kernel has where no shares were ever set; an update cannot unset them, only set these."""


class Exec(Protocol):
    """A process besides the container's first one."""

    def end_with_container(self) -> None:
        """The first process has ended."""


class Attachment(Protocol):
    """Somebody who reads the output."""

    def print(self, data: bytes) -> None:
        """The process prints this."""

    def end_output(self) -> None:
        """The process has ended."""


@dataclass(eq=False, slots=True)
class SimulatedContainer:
    """What changes of a container. `shown` is what does not change with its state; `view` adds what does."""

    id: str
    spec: ContainerSpec
    program: Program
    shown: EngineContainer
    phase: ContainerPhase = ContainerPhase.CREATED
    pid: int = 0
    exit_code: int = 0
    error: str = ""
    oom_killed: bool = False
    started_at: int = 0
    finished_at: int = 0
    files: Path | None = None
    """Folder with the container's resolv.conf, hosts and log; None: it has none."""
    timer: Timer | None = None
    """When the program ends by itself."""
    waiters: set[asyncio.Future[None]] = field(default_factory=set)
    """Calls of wait under way."""
    execs: dict[Exec, None] = field(default_factory=dict)
    """Those that run."""
    attached: dict[Attachment, None] = field(default_factory=dict)
    """Those who are connected to its streams."""
    input_ended: bool = False
    """Its standard input was closed for good."""
    kept: list[LogEntry] = field(default_factory=list)
    """What it printed, where that is kept elsewhere than in files."""
    readers: set[asyncio.Future[None]] = field(default_factory=set)
    """Those who wait for it to print something or to end."""
    _view: EngineContainer | None = None

    @property
    def name(self) -> str:
        """The container's name."""
        return self.shown.name

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self.phase is ContainerPhase.RUNNING

    @property
    def echoes(self) -> bool:
        """Whether it prints what it reads."""
        argv = self.shown.entrypoint + self.shown.command
        return argv == ("cat",) and self.spec.stdin and not self.input_ended

    @property
    def log_file(self) -> Path | None:
        """Where its output is kept from its first start on, if it has files."""
        kept = self.files is not None and self.shown.log_driver == "json-file"
        return self.files / f"{self.id}-json.log" if self.files is not None and kept else None

    def view(self) -> EngineContainer:
        """The container as inspect shows it; made once per change."""
        if self._view is None:
            self._view = dataclasses.replace(
                self.shown,
                phase=self.phase,
                pid=self.pid,
                exit_code=self.exit_code,
                error=self.error,
                oom_killed=self.oom_killed,
                started_at=self.started_at,
                finished_at=self.finished_at,
                log_path=str(self.log_file) if self.log_file else "",
            )
        return self._view

    def keep_log_with(self, driver: str) -> None:
        """Its output is kept by this log driver from now on."""
        self.shown = dataclasses.replace(self.shown, log_driver=driver)
        self.changed()

    def changed(self) -> None:
        """Say that a field was set, so that the next view is made anew."""
        self._view = None

    def began(self, now: int, pid: int) -> None:
        """Its process started."""
        self.phase, self.pid, self.started_at, self.finished_at = ContainerPhase.RUNNING, pid, now, 0
        self.exit_code, self.error, self.oom_killed, self.input_ended = 0, "", False, False
        self.changed()

    def could_not_begin(self, exit_code: int, error: str) -> None:
        """Its process could not be started; the engine leaves it "created", without times."""
        self.exit_code, self.error = exit_code, error
        self.changed()

    def ended(self, now: int, exit_code: int, *, oom_killed: bool = False) -> None:
        """Its process ended; those that wait for it are answered."""
        self.phase, self.pid, self.finished_at = ContainerPhase.EXITED, 0, now
        self.exit_code, self.oom_killed = exit_code, oom_killed
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.changed()
        for exec_ in tuple(self.execs):
            exec_.end_with_container()
        for attachment in tuple(self.attached):
            attachment.end_output()
        self.answer_waiters()

    def answer_waiters(self) -> None:
        """Let calls of wait return."""
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.wake_readers()

    def wake_readers(self) -> None:
        """Let those who read its log look again."""
        for reader in self.readers:
            if not reader.done():
                reader.set_result(None)

    def update(self, resources: EngineResources) -> None:
        """Take new resource values. Raises EngineError as an engine does, before anything is changed."""
        merged = _merge(self.shown.resources, resources)
        if merged.memory and merged.memory_swap and 0 < merged.memory_swap < merged.memory:
            raise EngineError(
                f"memory limit {merged.memory} is above the memory and swap limit {merged.memory_swap}",
                container=self.id,
            )
        self.shown = dataclasses.replace(self.shown, resources=merged)
        self.changed()


def make_container(
    container_id: str,
    name: str,
    spec: ContainerSpec,
    image: EngineImage,
    now: int,
    *,
    missing: tuple[str, ...] = DEFAULT_MISSING,
    files: Path | None = None,
    joined: SimulatedContainer | None = None,
) -> SimulatedContainer:
    """A container that was just created. `joined`: the container whose network, and so resolv.conf, it shares.

    Raises EngineError where neither spec nor image names a command.
    """
    shown = show_created(container_id, name, spec, image, created_at=now, default_runtime="runc")
    argv = shown.entrypoint + shown.command
    if not argv:
        raise EngineError("no command specified", kind=Kind.INVALID_ARGUMENT)
    memory, swap = spec.resources.memory, spec.resources.memory_swap
    if memory and not swap:
        swap = 2 * memory  # what Docker makes of a limit without one for swap
    shown = dataclasses.replace(
        shown,
        resolv_conf_path=joined.shown.resolv_conf_path if joined else str(files / "resolv.conf") if files else "",
        hosts_path=joined.shown.hosts_path if joined else str(files / "hosts") if files else "",
        resources=dataclasses.replace(spec.resources, memory_swap=swap),
        image_layers=(f"/simulated/layers/{image.id}",),
    )
    return SimulatedContainer(
        id=container_id, spec=spec, program=parse_program(argv, missing), shown=shown, files=files
    )


def _merge(old: EngineResources, new: EngineResources) -> EngineResources:
    given = {f.name: value for f in dataclasses.fields(new) if (value := getattr(new, f.name)) is not None}
    if given.get("cpu_shares") == 0:
        given["cpu_shares"] = _DEFAULT_SHARES
    return dataclasses.replace(old, **given)
