"""What the two kinds of session have in common: how a client's bytes come in, and how it leaves."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from crishim.streaming.errors import ProtocolViolation

if TYPE_CHECKING:
    from crishim.aiokit.background import Background
    from crishim.streaming.connection import Connection
    from crishim.streaming.wires import Wire

CLOSE_PATIENCE = 3.0
"""Seconds that a client which has everything has to close."""

Event = TypeVar("Event")


class ClientSession(ABC, Generic[Event]):
    """Serves one client from the upgrade to the connection's end."""

    def __init__(self, connection: Connection, wire: Wire[Event], background: Background) -> None:
        self._connection = connection
        self._wire = wire
        self._background = background
        self._task: asyncio.Task[object] | None = None
        self._gone = ""
        """How the client left; empty while it has not."""
        self._ending = False
        """All is over but the connection: what the client still says means nothing."""

    async def run(self) -> str:
        """Serve; what came of it, for the log. Everything is let go in any case."""
        self._task = asyncio.current_task()
        connection, wire = self._connection, self._wire
        try:
            connection.reply(wire.take())
            self._handle(wire.begin())
            connection.heartbeat = wire.heartbeat
            connection.receive_by(self._receive, self._lost)
            return await self._serve()
        except asyncio.CancelledError:
            if not self._gone or self._task is None:
                connection.write(self._last_words())
                connection.close()
                raise
            self._task.uncancel()
            self._drop_all()
            await connection.end(CLOSE_PATIENCE)
            return self._gone
        finally:
            self._drop_all()

    @abstractmethod
    async def _serve(self) -> str:
        """All from the first event to the connection's end, unless the client leaves before."""

    def _last_words(self) -> bytes:
        """What a client is told that is cut off because the server ends."""
        return self._wire.farewell()

    @abstractmethod
    def _handle(self, events: list[Event]) -> None:
        """What the client said."""

    @abstractmethod
    def _drop_all(self) -> None:
        """Let go of what this client had, at once; it may have been done already."""

    def _receive(self, data: bytes) -> None:
        connection, wire = self._connection, self._wire
        try:
            events = wire.feed(data)
        except ProtocolViolation as violation:
            connection.write(wire.take() + wire.farewell(violation=str(violation)))
            self._leave(f"broke the protocol: {violation}")
            return
        connection.reply(wire.take())
        if not self._ending:
            self._handle(events)
        if wire.closed:
            self._leave("closed")

    def _lost(self) -> None:
        self._leave("went away")

    def _leave(self, how: str) -> None:
        """The client has done: end, whatever is under way."""
        if not self._gone:
            self._gone = f"client {how}"
            self._connection.close()
            if self._task is not None and not self._ending:
                self._task.cancel()
