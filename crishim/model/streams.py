"""What a streaming session is given to work with: a process's standard streams, or connections into a pod.

Made by the verbs (exec, attach, port-forward), carried to the client by `crishim.streaming`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from socket import socket


class OutputStream(IntEnum):
    """Which of a process's outputs; the numbers are those of its descriptors."""

    STDOUT = 1
    STDERR = 2


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """A terminal's size in characters."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class WantedStreams:
    """The streams that ExecRequest and AttachRequest ask for. At least one is set; with `tty` stderr is not."""

    tty: bool
    stdin: bool
    stdout: bool
    stderr: bool


class ProcessStreams(ABC):
    """The streams of a running process. One task reads, another one may write at the same time."""

    @abstractmethod
    async def read(self) -> tuple[OutputStream, bytes] | None:
        """The next output, not empty, in the engine's order; None at the end. Not reading holds the process up.

        Raises EngineUnavailable when the connection broke off.
        """

    @abstractmethod
    async def write(self, data: bytes | memoryview) -> None:
        """Write to stdin and wait until there is room for more. Data for a process that closed it is dropped."""

    @abstractmethod
    async def close_stdin(self) -> None:
        """End stdin: the process reads its end after all that was written. With a terminal nothing happens."""

    @abstractmethod
    async def resize(self, size: TerminalSize) -> None:
        """Give the terminal a size. A process that has ended meanwhile is no error."""

    @abstractmethod
    async def exit_code(self) -> int:
        """Wait for the process's end (exec) or the container's (attach): 0 to 255, 128 + N when killed by signal N."""

    @abstractmethod
    async def close(self) -> None:
        """Let go: stdin ends, the terminal hangs up, the connection is closed. Can be called again."""


class PreparedProcess(ABC):
    """An exec or attach that was found valid and waits for its client."""

    container_id: str
    wanted: WantedStreams

    @abstractmethod
    async def start(self, size: TerminalSize | None) -> ProcessStreams:
        """Start (exec) or connect to (attach) the process, its terminal of this size if one is given.

        Raises the errors of `crishim.errors`: ContainerNotFound or ContainerNotRunning if that changed meanwhile, or
        the engine's refusal (no such binary, not executable, no such user) with its words.
        """


class PreparedForward(ABC):
    """A port-forward that was found valid and waits for its client."""

    sandbox_id: str
    ports: tuple[int, ...]
    """The ports that PortForwardRequest names; empty: any."""

    @abstractmethod
    async def connect(self, port: int) -> socket:
        """A connected non-blocking TCP socket to 127.0.0.1:port, else [::1]:port, in the pod's network namespace.

        Raises a CRIError that says which port was refused and why.
        """

    @abstractmethod
    async def ended(self) -> None:
        """Return when the sandbox does not run any more."""
