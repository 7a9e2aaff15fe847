"""One port-forward from its client's side: many connections into a pod, each of which can fail by itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, cast

from crishim.errors import CRIError
from crishim.streaming.session import CLOSE_PATIENCE, ClientSession
from crishim.streaming.wires import Bytes, ForwardEvent, ForwardWire, PairData, PairEnd, PairOpened

if TYPE_CHECKING:
    from crishim.aiokit.background import Background
    from crishim.model.streams import PreparedForward
    from crishim.streaming.connection import Connection

logger = logging.getLogger(__name__)

EARLY_HIGH = 256 << 10
"""Bytes that wait for a connection being made, or for the pod to read, when reading from the client stops."""
_WRITE_LOW = 64 << 10


class ForwardSession(ClientSession[ForwardEvent]):
    """Serves one client from the upgrade to the connection's end."""

    _wire: ForwardWire

    def __init__(
        self, connection: Connection, wire: ForwardWire, forward: PreparedForward, background: Background
    ) -> None:
        super().__init__(connection, wire, background)
        self._forward = forward
        self._pairs: dict[int, _PodSide] = {}
        self._opened = 0
        connection.when_writable = self._go_on

    async def _serve(self) -> str:
        await self._forward.ended()
        self._gone = f"pod ended after {self._opened} connections"
        self._drop_all()
        self._connection.write(self._wire.farewell())
        await self._connection.end(CLOSE_PATIENCE)
        return self._gone

    def _drop_all(self) -> None:
        pairs, self._pairs = self._pairs, {}
        for side in pairs.values():
            side.drop()

    # --- from the client ----------------------------------------------------------------------------------------

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

    def forward(self, side: _PodSide, data: bytes) -> None:
        """Pass the pod's bytes on.

        While the client does not keep up nothing is read from any connection: each could add to what waits. They are
        told to go on in the order of the dictionary, and whoever filled the room is last.
        """
        if self._pairs.get(side.pair) is not side:
            return
        self._connection.write_parts(*self._wire.data(side.pair, data))
        if self._connection.congested:
            self._pairs[side.pair] = self._pairs.pop(side.pair)
            for one in self._pairs.values():
                one.stop()

    def may_send(self, side: _PodSide) -> None:
        """A connection is made: it waits with the others."""
        if self._connection.congested:
            side.stop()

    def half_close(self, side: _PodSide) -> None:
        """The pod sends nothing more."""
        if self._pairs.get(side.pair) is side:
            self._connection.write(self._wire.end(side.pair))

    def _go_on(self) -> None:
        for side in self._pairs.values():
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
                self._end_input(self._transport)

    @staticmethod
    def _end_input(transport: asyncio.Transport) -> None:
        # The pod may have broken off a moment ago: the loop will tell, and what had come before is still to be read.
        with contextlib.suppress(OSError):
            transport.write_eof()

    def stop(self) -> None:
        """Read nothing more until told to go on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

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
            self._end_input(self._transport)
        self._session.may_send(self)

    def data_received(self, data: bytes) -> None:
        self._session.forward(self, data)

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
            cut = exc is not None and not self._pod_ended
            self._session.finish(self, f"port {self.port}: {exc}" if cut else "")
