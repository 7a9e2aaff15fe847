"""What a URL stands for: a prepared process or forward, and the session that a client with the right protocol gets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crishim.streaming.errors import Refused
from crishim.streaming.forward_channels import MOST_PORTS, ChannelForwardWire
from crishim.streaming.forward_session import ForwardSession
from crishim.streaming.forward_spdy import SpdyForwardWire, TunnelForwardWire
from crishim.streaming.process_channels import ChannelProcessWire
from crishim.streaming.process_session import ProcessSession
from crishim.streaming.process_spdy import SpdyProcessWire
from crishim.streaming.protocols import PORT_FORWARD, Channels, choose_forward, choose_process
from crishim.streaming.upgrade import Transport, Upgrade
from crishim.streaming.wires import ForwardWire, ProcessWire

if TYPE_CHECKING:
    from crishim.aiokit.background import Background
    from crishim.model.streams import PreparedForward, PreparedProcess
    from crishim.streaming.connection import Connection

Session = Coroutine[Any, Any, str]


class Job(ABC):
    """Waits under a token."""

    verb: str
    """First part of the URL's path."""

    @property
    @abstractmethod
    def noun(self) -> str:
        """Whom it is about, for the log."""

    @abstractmethod
    def open(self, upgrade: Upgrade, connection: Connection, background: Background) -> tuple[str, Session]:
        """The protocol's name, and the session, which the caller runs. Raises Refused."""


@dataclass(frozen=True, slots=True)
class ProcessJob(Job):
    """An exec or attach."""

    verb: str
    process: PreparedProcess
    tells_exit_code: bool

    @property
    def noun(self) -> str:
        return f"container {self.process.container_id}"

    def open(self, upgrade: Upgrade, connection: Connection, background: Background) -> tuple[str, Session]:
        protocol = choose_process(upgrade)
        wire: ProcessWire
        if upgrade.transport is Transport.SPDY:
            wire = SpdyProcessWire(protocol, self.process.wanted)
        else:
            wire = ChannelProcessWire(protocol, self.process.wanted)
        session = ProcessSession(connection, wire, self.process, background, tells_exit_code=self.tells_exit_code)
        return protocol.name, session.run()


@dataclass(frozen=True, slots=True)
class ForwardJob(Job):
    """A port-forward."""

    verb: str
    forward: PreparedForward

    @property
    def noun(self) -> str:
        return f"sandbox {self.forward.sandbox_id}"

    def open(self, upgrade: Upgrade, connection: Connection, background: Background) -> tuple[str, Session]:
        protocol = choose_forward(upgrade)
        wire: ForwardWire
        if isinstance(protocol, Channels):
            name = protocol.name
            wire = ChannelForwardWire(protocol, self._ports(upgrade))
        else:
            name = protocol
            wire = SpdyForwardWire() if protocol == PORT_FORWARD else TunnelForwardWire()
        return name, ForwardSession(connection, wire, self.forward, background).run()

    def _ports(self, upgrade: Upgrade) -> list[int]:
        """Channels need the ports beforehand: those of CRI's request, else those of the URL's `port`."""
        if self.forward.ports:
            ports = list(self.forward.ports)
        else:
            texts = [text for value in upgrade.query.get("port", ()) for text in value.split(",")]
            if not all(text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536 for text in texts):
                raise Refused(400, "a port is a number from 1 to 65535")
            ports = [int(text) for text in texts]
        if not 0 < len(ports) <= MOST_PORTS:
            raise Refused(400, f"this protocol needs the ports named beforehand, 1 to {MOST_PORTS} of them")
        return ports
