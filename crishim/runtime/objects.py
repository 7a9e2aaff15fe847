"""A sandbox and a container as the index holds them: what was asked (the record) and what is (the engine's answer).

States are derived from these two, never stored:

    sandbox    READY     its record says READY, and the engine runs the very process whose namespaces are pinned
                         (or has not told yet, since a start of crishim, what became of it); of one that is
                         anchored, its namespaces are held
               NOTREADY  everything else
    container  CREATED   the engine has it and it never started
               RUNNING   it runs (a paused one does, too)
               EXITED    it ran and ended, or its start failed
               UNKNOWN   the engine lists it, but has not told yet, since a start of crishim, what became of it
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from crishim.checkpoint.record import Carrier, ContainerRecord, Phase, SandboxRecord
from crishim.engine.values import ContainerPhase, EngineContainer
from crishim.model import ContainerState, NamespaceMode, NamespaceOption, PodSandboxMetadata, PodSandboxState


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """A pod sandbox. A new value replaces the old one in the index; `revision` tells them apart."""

    record: SandboxRecord
    live: EngineContainer | None
    """None: the engine has no such container (it was removed behind our back, or its store was switched). Always None
    for one that is anchored: nothing about it hangs on the engine's object."""
    seen: bool = True
    """Whether the engine has told of it since crishim started. Until then its record is the last known state."""
    held: bool = True
    """Whether the namespaces of one that is anchored were held when they were last looked at."""
    revision: int = 0

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def metadata(self) -> PodSandboxMetadata:
        assert self.record.config.metadata is not None, "a sandbox without metadata is refused before it is made"
        return self.record.config.metadata

    @property
    def namespaces(self) -> NamespaceOption:
        """The namespace options as asked, with the defaults of an absent message filled in."""
        linux = self.record.config.linux
        context = linux.security_context if linux else None
        return (context.namespace_options if context else None) or NamespaceOption()

    @property
    def anchored(self) -> bool:
        """Whether its namespaces are held by pins alone (`Carrier.ANCHORED`)."""
        return self.record.carrier is Carrier.ANCHORED

    @property
    def object_id(self) -> str:
        """The id that the engine knows it by; empty: none is known."""
        return self.record.object_id if self.anchored else self.id

    @property
    def host_network(self) -> bool:
        return self.namespaces.network is NamespaceMode.NODE

    @property
    def running(self) -> bool:
        return self.live is not None and self.live.phase is ContainerPhase.RUNNING

    @cached_property
    def state(self) -> PodSandboxState:
        if self.record.phase is not Phase.READY:
            return PodSandboxState.SANDBOX_NOTREADY
        if self.anchored:
            return PodSandboxState.SANDBOX_READY if self.held else PodSandboxState.SANDBOX_NOTREADY
        if not self.seen:
            return PodSandboxState.SANDBOX_READY
        if self.live is None or not self.running:
            return PodSandboxState.SANDBOX_NOTREADY
        # A restart behind our back left the pinned namespaces without the process that containers would join.
        same = self.live.started_at == self.record.started_at
        return PodSandboxState.SANDBOX_READY if same else PodSandboxState.SANDBOX_NOTREADY

    @property
    def ready(self) -> bool:
        return self.state is PodSandboxState.SANDBOX_READY

    @property
    def ips(self) -> tuple[str, ...]:
        """The pod's addresses, primary first; none where there is none to tell (CRI `PodSandboxStatus.network`)."""
        if not self.ready or self.host_network or self.record.network is None:
            return ()
        return self.record.network.ips

    @property
    def pid(self) -> int:
        return self.live.pid if self.live is not None and self.running else 0


@dataclass(frozen=True, slots=True)
class ContainerUser:
    """Who the container's first process is, as the kernel says (CRI `LinuxContainerUser`)."""

    uid: int
    gid: int
    groups: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container of a sandbox."""

    record: ContainerRecord
    sandbox_id: str
    live: EngineContainer
    log_path: str = ""
    """Absolute path of the log for this container, empty for none."""
    user: ContainerUser | None = None
    found: bool = False
    """Found in the engine at a start of crishim, so that nobody may know of it yet."""
    seen: bool = True
    """Whether the engine has told of it since crishim started; if not, `live` holds nothing but what is recorded."""
    revision: int = 0

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def unclaimed(self) -> bool:
        """A leftover: made by a call that perhaps nobody got an answer to, and never started."""
        return self.found and self.state is ContainerState.CONTAINER_CREATED

    @property
    def name(self) -> str:
        assert self.record.config.metadata is not None, "a container without metadata is refused before it is made"
        return self.record.config.metadata.name

    @property
    def start_failed(self) -> bool:
        return start_failed(self.live)

    @cached_property
    def state(self) -> ContainerState:
        if not self.seen:
            return ContainerState.CONTAINER_UNKNOWN
        if self.start_failed:
            return ContainerState.CONTAINER_EXITED
        return _STATES[self.live.phase]

    @property
    def running(self) -> bool:
        return self.state is ContainerState.CONTAINER_RUNNING

    @property
    def created_at(self) -> int:
        return self.record.created_at

    @property
    def started_at(self) -> int:
        """0 before the start; never earlier than the creation after it."""
        if self.state is ContainerState.CONTAINER_CREATED:
            return 0
        return max(self.live.started_at, self.created_at)

    @property
    def finished_at(self) -> int:
        """0 until it ended; never earlier than the start after it."""
        if self.state is not ContainerState.CONTAINER_EXITED:
            return 0
        return max(self.live.finished_at, self.started_at)

    @property
    def exit_code(self) -> int:
        return self.live.exit_code if self.state is ContainerState.CONTAINER_EXITED else 0

    @property
    def reason(self) -> str:
        """CamelCase word for why it ended (CRI `ContainerStatus.reason`), empty while it has not."""
        if self.state is not ContainerState.CONTAINER_EXITED:
            return ""
        if self.start_failed:
            return "ContainerCannotRun" if self.live.exit_code in (126, 127) else "StartError"
        if self.live.oom_killed:
            return "OOMKilled"
        return "Completed" if self.live.exit_code == 0 else "Error"

    @property
    def oom_score_adj(self) -> int:
        """The OOM score adjustment in force. The engine tells only that of the creation, and an update is ours."""
        updated = self.record.oom_score_adj
        return self.live.oom_score_adj if updated is None else updated

    @property
    def message(self) -> str:
        return self.live.error if self.state is ContainerState.CONTAINER_EXITED else ""


def start_failed(live: EngineContainer) -> bool:
    """The engine leaves a container whose start failed in `created`, with an error or exit code."""
    return live.phase is ContainerPhase.CREATED and (bool(live.error) or live.exit_code != 0)


_STATES = {
    ContainerPhase.CREATED: ContainerState.CONTAINER_CREATED,
    ContainerPhase.RUNNING: ContainerState.CONTAINER_RUNNING,
    ContainerPhase.EXITED: ContainerState.CONTAINER_EXITED,
    ContainerPhase.REMOVING: ContainerState.CONTAINER_EXITED,
}
