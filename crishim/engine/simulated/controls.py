"""What is done to a simulated engine behind its callers' back, and what can be seen of it without a call."""

from __future__ import annotations

from collections import Counter

from crishim.engine.api import Engine
from crishim.engine.simulated.faults import Fault, Match, Scripted
from crishim.engine.simulated.gate import Gate
from crishim.engine.simulated.images import ImageStore
from crishim.engine.simulated.machine import Machine
from crishim.engine.values import EngineContainer
from crishim.errors import EngineConflict

EXEC_CALLS = frozenset({"exec_start", "exec_inspect", "exec_kill", "resize"})
"""What an exec asks of the engine once it is prepared, as `calls` counts it and `script` strikes it."""


class Controls:
    """The outside world's grip on an engine: its gate, where calls come in, and its machine, where containers are."""

    def __init__(self, gate: Gate, machine: Machine) -> None:
        self._gate = gate
        self._machine = machine
        self._closed = False

    @property
    def images(self) -> ImageStore:
        """The image store, for looking and for putting images in; no call is counted and no event told."""
        return self._machine.images

    @property
    def calls(self) -> Counter[str]:
        """How often each method of the interface was called; may be cleared."""
        return self._gate.calls

    @property
    def hanging(self) -> int:
        """How many calls hang by the script at this moment."""
        return self._gate.hanging

    @property
    def execs(self) -> int:
        """How many execs run."""
        return sum(len(container.execs) for container in self._machine.containers.values())

    @property
    def attached(self) -> int:
        """How many connections to containers' streams are open."""
        return sum(len(container.attached) for container in self._machine.containers.values())

    @property
    def listening(self) -> int:
        """How many event streams are open."""
        return len(self._machine.hub.listeners)

    @property
    def containers(self) -> tuple[EngineContainer, ...]:
        """All containers as they are, the oldest first; no call is counted."""
        return tuple(container.view() for container in self._machine.containers.values())

    async def called(self, method: str, count: int = 1) -> None:
        """Return once a method was called `count` times: a test's way to act in the middle of a call."""
        await self._gate.called(method, count)

    def script(self, method: str, fault: Fault, *, times: int | None = 1, match: Match | None = None) -> Scripted:
        """Let a fault strike the next `times` calls of a method (None: all) for whose arguments `match` is true.

        Returns the line, which counts its hits and can be cancelled. ValueError: the interface has no such method.
        """
        if not callable(getattr(Engine, method, None)) and method not in EXEC_CALLS:
            raise ValueError(f"an engine has no method {method!r}")
        return self._gate.script.add(method, fault, times, match)

    def go_down(self, reason: str = "cannot connect to the simulated engine", *, containers_die: bool = False) -> None:
        """Become unreachable: calls under way and streams break, new calls are refused.

        Containers run on, as with live restore, or die with the engine.
        """
        self._gate.shut(reason)
        self._machine.hub.break_all(reason)
        if containers_die:
            for container in tuple(self._machine.containers.values()):
                if container.running:
                    self._machine.end(container, 137)

    def come_back(self) -> None:
        """Be reachable again, with all containers and images."""
        if self._closed:
            raise RuntimeError("closed for good")
        self._gate.reopen()

    def reload(self) -> None:
        """Tell that the engine has read its settings anew: what `connect` answers from now on may be different."""
        self._machine.hub.emit("daemon", "reload", "simulated", self._machine.now(), {})

    def restart_container(self, id_or_name: str) -> None:
        """What `docker restart` does: the program ends and another process begins."""
        self._machine.restart(self._machine.find(id_or_name))

    def vanish(self, id_or_name: str) -> None:
        """What `docker rm -f` does. To let it go unseen, drop events first."""
        self._machine.remove(self._machine.find(id_or_name))

    def finish(self, id_or_name: str, exit_code: int = 0, *, oom_killed: bool = False) -> None:
        """Let a running container's program end by itself."""
        container = self._machine.find(id_or_name)
        if not container.running:
            raise EngineConflict(f"container {container.id} is not running", container=container.id)
        self._machine.end(container, exit_code, oom_killed=oom_killed)

    def say(self, id_or_name: str, data: bytes, stream: str = "stdout") -> None:
        """Let a running container's program print something, to `stdout` or `stderr`."""
        container = self._machine.find(id_or_name)
        if not container.running:
            raise EngineConflict(f"container {container.id} is not running", container=container.id)
        self._machine.say(container, data, stream)

    def keep_log_with(self, id_or_name: str, driver: str) -> None:
        """Keep what a new container prints as a log driver does: `none` not, any but json-file for `read_log` alone."""
        self._machine.find(id_or_name).keep_log_with(driver)

    def drop_events(self, count: int) -> None:
        """Lose the next events: no listener sees them."""
        self._machine.hub.to_drop += count

    def garble_events(self, count: int) -> None:
        """Tell the next events as ones that cannot be read: of what they are about, nobody learns."""
        self._machine.hub.to_garble += count
