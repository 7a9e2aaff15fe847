"""What sessions see of a protocol: events of the client, and bytes that tell it something. No I/O.

A wire takes the connection's bytes and gives events; its other methods give bytes to send (perhaps none). What it
answers on its own account (accepting streams, pongs) is collected until `take`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from crishim.model.streams import OutputStream, TerminalSize
    from crishim.streaming.status import Status

Bytes = bytes | bytearray | memoryview
Parts = tuple[bytes, bytes]
"""Bytes to send, in two parts: a frame's head, and a payload that is not copied behind it."""
NOTHING: Parts = (b"", b"")


class Ready(NamedTuple):
    """All streams that the session needs are there."""


class Input(NamedTuple):
    """Bytes for stdin, not empty."""

    data: Bytes


class InputEnd(NamedTuple):
    """Nothing more comes for stdin."""


class Resize(NamedTuple):
    """The client's terminal has this size now."""

    size: TerminalSize


ProcessEvent = Ready | Input | InputEnd | Resize


class PairOpened(NamedTuple):
    """The client wants a connection to this port; `PairData` and the others name it by `pair`."""

    pair: int
    port: int


class PairData(NamedTuple):
    """Bytes for a connection, not empty."""

    pair: int
    data: Bytes


class PairEnd(NamedTuple):
    """The client sends nothing more on a connection, but still reads."""

    pair: int


class PairGone(NamedTuple):
    """The client has done with a connection. The wire has forgotten it."""

    pair: int


ForwardEvent = PairOpened | PairData | PairEnd | PairGone

Event = TypeVar("Event")


class Wire(ABC, Generic[Event]):
    """What both kinds of session have in common."""

    @property
    def closed(self) -> bool:
        """The client closed the protocol (not just the connection): the connection is to be closed, too."""
        return False

    @abstractmethod
    def take(self) -> bytes:
        """What is to be sent on the protocol's own account."""

    @abstractmethod
    def begin(self) -> list[Event]:
        """What is so before the client says anything."""

    @abstractmethod
    def feed(self, data: bytes) -> list[Event]:
        """Take bytes of the connection. Raises ProtocolViolation."""

    def heartbeat(self) -> bytes:
        """What tells the client that we are alive while nothing is read from it."""
        return b""

    @abstractmethod
    def farewell(self, *, violation: str = "") -> bytes:
        """The protocol's end: because of a violation of it, or because the session or server ends."""


class ProcessWire(Wire[ProcessEvent]):
    """Exec and attach."""

    has_sizes: bool
    """Whether the client will tell the terminal's size, if the process has one."""

    @abstractmethod
    def output(self, stream: OutputStream, data: bytes) -> Parts:
        """The process's output. What the client does not want (any more) gives nothing."""

    @abstractmethod
    def ended(self, status: Status) -> bytes:
        """The end of all streams and the status; nothing but `farewell` may follow."""

    @abstractmethod
    def cut(self, status: Status) -> bytes:
        """The end because the server ends, told so that no client takes it for the process's."""


class ForwardWire(Wire[ForwardEvent]):
    """Port-forward."""

    @abstractmethod
    def data(self, pair: int, data: bytes) -> Parts:
        """Bytes from the port."""

    @abstractmethod
    def end(self, pair: int) -> bytes:
        """The port sends nothing more, but may still read."""

    @abstractmethod
    def finish(self, pair: int, error: str = "") -> bytes:
        """The connection is over, and why if it failed. The wire forgets it."""
