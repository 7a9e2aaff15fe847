"""A process's streams on a connection taken over from the engine: what an exec and an attach have in common."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from crishim.engine.docker.connection import Connection
from crishim.engine.docker.deadlines import Deadlines
from crishim.engine.docker.errors import guard
from crishim.engine.docker.hijack import Hijacked
from crishim.engine.docker.terminal import Terminal
from crishim.errors import EngineError, EngineUnavailable
from crishim.model.streams import OutputStream, ProcessStreams, TerminalSize, WantedStreams

log = logging.getLogger(__name__)


class HijackedProcess(ProcessStreams):
    """One process, or one view of it, in one container."""

    def __init__(
        self, connection: Connection, limits: Deadlines, *, container_id: str, wanted: WantedStreams, resize: str
    ) -> None:
        """`resize`: the path that its terminal's sizes are posted to."""
        self.container_id = container_id
        self._connection = connection
        self._limits = limits
        self._wanted = wanted
        self._stream: Hijacked | None = None
        self._terminal = Terminal(connection, resize, limits.kill)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in {self.container_id[:13]}: {self._stream!r}>"

    async def _take_over(self, what: str, doing: str, path: str, body: Mapping[str, Any]) -> Hijacked:
        """Post to a path whose answer is the streams. Raises EngineUnavailable and the engine's refusals."""
        ids = {"container": self.container_id}
        async with guard(doing, self._limits.start, **ids):
            self._stream = await self._connection.hijack(what, path, body, tty=self._wanted.tty, **ids)
        return self._stream

    def _started(self) -> Hijacked:
        if self._stream is None:
            raise EngineUnavailable("the streams have not been asked for yet", container=self.container_id)
        return self._stream

    async def read(self) -> tuple[OutputStream, bytes] | None:
        return await self._started().read()

    async def write(self, data: bytes | memoryview) -> None:
        await self._started().write(data)

    async def resize(self, size: TerminalSize) -> None:
        try:
            await self._terminal.resize(size)
        except EngineError as error:
            if await self._runs():
                raise
            log.debug("a terminal was not resized, its process has ended: %s", error)

    @abstractmethod
    async def _runs(self) -> bool:
        """Whether the process whose terminal could not be resized runs."""
