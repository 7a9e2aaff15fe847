"""One port-forward from its client's side: many connections into a pod, each of which can fail by itself."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from crishim.errors import CRIError
from crishim.streaming.errors import ProtocolViolation
from crishim.streaming.process_session import CLOSE_PATIENCE
from crishim.streaming.wires import Bytes, ForwardEvent, ForwardWire, PairData, PairEnd, PairOpened

if TYPE_CHECKING:
    from crishim.aiokit.background import Background
    from crishim.model.streams import PreparedForward
    from crishim.streaming.connection import Connection

logger = logging.getLogger(__name__)

EARLY_HIGH = 256 << 10
"""Bytes that wait for a connection being made, or for the pod to read, when reading from the client stops."""
_WRITE_LOW = 64 << 10


class ForwardSession:
    """Serves one client from the upgrade to the connection's end."""

    def __init__(
        self, connection: Connection, wire: ForwardWire, forward: PreparedForward, background: Background
    ) -> None:
        self._connection = connection
        self._wire = wire
        self._forward = forward
        self._background = background
        self._pairs: dict[int, _PodSide] = {}
        self._stopped: set[_PodSide] = set()
        self._task: asyncio.Task[object] | None = None
        self._gone = ""
        self._opened = 0

    async def run(self) -> str:
        """Serve; what came of it, for the log. All connections are let go in any case."""
        self._task = asyncio.current_task()
        connection, wire = self._connection, self._wire
        connection.when_writable = self._go_on
        try:
            connection.reply(wire.take())
            self._handle(wire.begin())
            connection.heartbeat = wire.heartbeat
            connection.receive_by(self._receive, self._lost)
            await self._forward.ended()
            self._gone = "pod ended"
            self._drop_all()
            connection.write(wire.farewell())
            await connection.end(CLOSE_PATIENCE)
        except asyncio.CancelledError:
            if not self._gone or self._task is None:
                connection.write(wire.farewell())
                connection.close()
                raise
            self._task.uncancel()
            self._drop_all()
            await connection.end(CLOSE_PATIENCE)
        finally:
            self._drop_all()
        return f"{self._gone} after {self._opened} connections"

    # --- from the client ----------------------------------------------------------------------------------------

    def _receive(self, data: bytes) -> None:
        connection, wire = self._connection, self._wire
        try:
            events = wire.feed(data)
        except ProtocolViolation as violation:
            connection.write(wire.take() + wire.farewell(violation=str(violation)))
            self._leave(f"broke the protocol: {violation}")
            return
        connection.reply(wire.take())
        self._handle(events)
        if wire.closed:
            self._leave("closed")

    def _handle(self, events: list[ForwardEvent]) -> None:
        for event in events:
            if isinstance(event, PairOpened):
                self._open(event.pair, event.port)
            elif (side := self._pairs.get(event.pair)) is None:
                continue
            elif isinstance(event, PairData):
                side.send(event.data)
            elif isinstance(event, PairEnd):
                side.end()
            else:
                del self._pairs[event.pair]
                side.drop()

    def _lost(self) -> None:
        self._leave("went away")

    def _leave(self, how: str) -> None:
        if not self._gone:
            self._gone = f"client {how}"
            self._connection.close()
            if self._task is not None:
                self._task.cancel()

    def _drop_all(self) -> None:
        pairs, self._pairs = self._pairs, {}
        for side in pairs.values():
            side.drop()

    # --- into the pod -------------------------------------------------------------------------------------------

    def _open(self, pair: int, port: int) -> None:
        self._opened += 1
        side = self._pairs[pair] = _PodSide(self, pair, port)
        side.dialing = self._background.start(self._dial(side), name=f"connecting to port {port} of a pod")

    async def _dial(self, side: _PodSide) -> None:
        port = side.port
        try:
            if self._forward.ports and port not in self._forward.ports:
                named = ", ".join(map(str, self._forward.ports))
                self.finish(side, f"port {port} is not one of those asked for ({named})")
                return
            found = await self._forward.connect(port)
        except CRIError as error:
            self.finish(side, str(error))
            return
        except Exception:
            logger.exception("connecting to port %d of a pod failed", port)
            self.finish(side, f"port {port}: internal error: see crishim's log")
            return
        try:
            await asyncio.get_running_loop().create_connection(lambda: side, sock=found)
        except BaseException:
            found.close()
            raise

    def finish(self, side: _PodSide, error: str = "") -> None:
        """A connection is over."""
        self._stopped.discard(side)
        self.release(side)
        if self._pairs.get(side.pair) is side:
            del self._pairs[side.pair]
            self._connection.write(self._wire.finish(side.pair, error))
            side.drop()

    def hold(self, side: _PodSide) -> None:
        """The pod does not read what the client sends on this connection."""
        self._connection.pause(f"pair {side.pair}")

    def release(self, side: _PodSide) -> None:
        """It does again, or the connection is over."""
        self._connection.resume(f"pair {side.pair}")

    def forward(self, side: _PodSide, data: bytes) -> bool:
        """Pass the pod's bytes on; False: the client does not keep up, stop reading until told to go on."""
        if self._pairs.get(side.pair) is not side:
            return True
        self._connection.write_parts(*self._wire.data(side.pair, data))
        if self._connection.congested:
            self._stopped.add(side)
            return False
        return True

    def half_close(self, side: _PodSide) -> None:
        """The pod sends nothing more."""
        if self._pairs.get(side.pair) is side:
            self._connection.write(self._wire.end(side.pair))

    def _go_on(self) -> None:
        stopped, self._stopped = self._stopped, set()
        for side in stopped:
            side.go_on()


class _PodSide(asyncio.Protocol):
    """One connection into the pod."""

    def __init__(self, session: ForwardSession, pair: int, port: int) -> None:
        self._session = session
        self.pair = pair
        self.port = port
        self.dialing: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._early: list[Bytes] = []
        self._early_size = 0
        self._client_ended = False
        self._pod_ended = False
        self._dropped = False

    # --- what the session asks ----------------------------------------------------------------------------------

    def send(self, data: Bytes) -> None:
        """Bytes for the pod."""
        if self._transport is not None:
            self._transport.write(data)
            return
        self._early.append(data)
        self._early_size += len(data)
        if self._early_size >= EARLY_HIGH:
            self._session.hold(self)

    def end(self) -> None:
        """The client sends nothing more."""
        self._client_ended = True
        if self._transport is not None and not self._transport.is_closing():
            if self._pod_ended:
                self._transport.close()
            else:
                self._transport.write_eof()

    def go_on(self) -> None:
        """Read again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def drop(self) -> None:
        """Let go at once."""
        self._dropped = True
        self._early.clear()
        self._session.release(self)
        if self._transport is not None:
            self._transport.abort()
        elif self.dialing is not None and self.dialing is not asyncio.current_task():
            self.dialing.cancel()

    # --- what asyncio calls -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._dropped:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(EARLY_HIGH, _WRITE_LOW)
        self._session.release(self)
        early, self._early = self._early, []
        for data in early:
            self._transport.write(data)
        if self._client_ended:
            self._transport.write_eof()

    def data_received(self, data: bytes) -> None:
        if not self._session.forward(self, data) and self._transport is not None:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        self._pod_ended = True
        if self._client_ended:
            return False
        self._session.half_close(self)
        return True

    def pause_writing(self) -> None:
        self._session.hold(self)

    def resume_writing(self) -> None:
        self._session.release(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._dropped:
            # What the pod sent before it broke off may be cut: the client must not take this for an orderly end.
            self._session.finish(self, "" if exc is None else f"port {self.port}: {exc}")
