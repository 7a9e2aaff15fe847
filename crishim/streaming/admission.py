"""From a request for an upgrade to the session that a client with the right protocol gets.

This is what knows HTTP and the protocols; the server loads it with its first client.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crishim.streaming.errors import Refused
from crishim.streaming.forward_channels import MOST_PORTS, ChannelForwardWire
from crishim.streaming.forward_session import ForwardSession
from crishim.streaming.forward_spdy import SpdyForwardWire, TunnelForwardWire
from crishim.streaming.jobs import ForwardJob, Job, ProcessJob, Session
from crishim.streaming.process_channels import ChannelProcessWire
from crishim.streaming.process_session import ProcessSession
from crishim.streaming.process_spdy import SpdyProcessWire
from crishim.streaming.protocols import PORT_FORWARD, Channels, choose_forward, choose_process
from crishim.streaming.upgrade import RequestReader, Transport, Upgrade, refusal, switching
from crishim.streaming.wires import ForwardWire, ProcessWire

if TYPE_CHECKING:
    from crishim.aiokit.background import Background
    from crishim.streaming.connection import Connection


class Admission:
    """What is done with strangers. It has no state."""

    @staticmethod
    async def read_head(connection: Connection) -> Upgrade:
        """The client's request; what comes behind it waits in the connection.

        Raises Refused, and ConnectionResetError when the client went away.
        """
        reader = RequestReader()
        head: asyncio.Future[Upgrade] = asyncio.get_running_loop().create_future()

        def receive(data: bytes) -> None:
            try:
                upgrade = reader.feed(data)
            except Refused as refused:
                connection.receive_by(_ignore)
                if not head.done():
                    head.set_exception(refused)
                return
            if upgrade is not None and not head.done():
                connection.receive_by(None)
                connection.unread(upgrade.early)
                head.set_result(upgrade)

        def lost() -> None:
            if not head.done():
                head.set_exception(ConnectionResetError("closed"))

        connection.receive_by(receive, lost)
        return await head

    @staticmethod
    def accept(job: Job, upgrade: Upgrade, connection: Connection, background: Background) -> Session:
        """Answer the upgrade; the session, which the caller runs. Raises Refused before anything was answered."""
        if isinstance(job, ProcessJob):
            protocol, session = _process_session(job, upgrade, connection, background)
        else:
            protocol, session = _forward_session(job, upgrade, connection, background)
        connection.write(switching(upgrade, protocol))
        return session

    @staticmethod
    async def refuse(refused: Refused, connection: Connection, patience: float) -> None:
        """Answer so, and end the connection within `patience` seconds."""
        connection.write(refusal(refused))
        await connection.end(patience)


def _process_session(
    job: ProcessJob, upgrade: Upgrade, connection: Connection, background: Background
) -> tuple[str, Session]:
    protocol = choose_process(upgrade)
    wire: ProcessWire
    if upgrade.transport is Transport.SPDY:
        wire = SpdyProcessWire(protocol, job.process.wanted)
    else:
        wire = ChannelProcessWire(protocol, job.process.wanted)
    session = ProcessSession(connection, wire, job.process, background, tells_exit_code=job.tells_exit_code)
    return protocol.name, session.run()


def _forward_session(
    job: ForwardJob, upgrade: Upgrade, connection: Connection, background: Background
) -> tuple[str, Session]:
    protocol = choose_forward(upgrade)
    wire: ForwardWire
    if isinstance(protocol, Channels):
        name = protocol.name
        wire = ChannelForwardWire(protocol, _ports(job, upgrade))
    else:
        name = protocol
        wire = SpdyForwardWire() if protocol == PORT_FORWARD else TunnelForwardWire()
    return name, ForwardSession(connection, wire, job.forward, background).run()


def _ports(job: ForwardJob, upgrade: Upgrade) -> list[int]:
    """Channels need the ports beforehand: those of CRI's request, else those of the URL's `port`."""
    if job.forward.ports:
        ports = list(job.forward.ports)
    else:
        texts = [text for value in upgrade.query.get("port", ()) for text in value.split(",")]
        if not all(text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536 for text in texts):
            raise Refused(400, "a port is a number from 1 to 65535")
        ports = [int(text) for text in texts]
    if not 0 < len(ports) <= MOST_PORTS:
        raise Refused(400, f"this protocol needs the ports named beforehand, 1 to {MOST_PORTS} of them")
    return ports


def _ignore(data: bytes) -> None:
    """Of a request that is refused nothing more is read."""
