"""Attach on the Docker Engine: the streams of a container's first process."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from crishim.engine.docker.connection import Connection
from crishim.engine.docker.hijack import Hijacked
from crishim.engine.docker.terminal import Terminal
from crishim.engine.values import ContainerPhase, EngineContainer
from crishim.errors import EngineError, EngineNotFound
from crishim.model.streams import OutputStream, ProcessStreams, TerminalSize, WantedStreams

log = logging.getLogger(__name__)

_KILLED = 137


class DockerAttachment(ProcessStreams):
    """One connection to a container's streams."""

    def __init__(
        self,
        connection: Connection,
        stream: Hijacked,
        *,
        container_id: str,
        wanted: WantedStreams,
        ends_stdin: bool,
        limit: float,
        wait: Callable[[str], Awaitable[None]],
        inspect: Callable[[str], Awaitable[EngineContainer]],
    ) -> None:
        """`limit`: seconds for a resize; `wait` and `inspect`: the engine's."""
        self._stream = stream
        self._container_id = container_id
        self._wanted = wanted
        self._ends_stdin = ends_stdin
        self._wait = wait
        self._inspect = inspect
        self._stdin_open = wanted.stdin
        self._terminal = Terminal(connection, f"containers/{container_id}/resize", limit)

    def __repr__(self) -> str:
        return f"<DockerAttachment {self._container_id[:13]}: {self._stream!r}>"

    async def read(self) -> tuple[OutputStream, bytes] | None:
        return await self._stream.read()

    async def write(self, data: bytes | memoryview) -> None:
        if self._stdin_open:
            await self._stream.write(data)

    async def close_stdin(self) -> None:
        if self._wanted.tty:
            return
        self._stdin_open = False
        # Where stdin stays open for others, the engine would take the end for ours altogether, output included.
        if self._ends_stdin:
            self._stream.write_eof()

    async def resize(self, size: TerminalSize) -> None:
        try:
            await self._terminal.resize(size)
        except EngineError as error:
            if await self._runs():
                raise
            log.debug("a terminal was not resized, its container has ended: %s", error)

    async def _runs(self) -> bool:
        try:
            return (await self._inspect(self._container_id)).phase is ContainerPhase.RUNNING
        except EngineNotFound:
            return False

    async def exit_code(self) -> int:
        try:
            await self._wait(self._container_id)
            return (await self._inspect(self._container_id)).exit_code
        except EngineNotFound:
            return _KILLED  # removed meanwhile, which kills it

    async def close(self) -> None:
        self._stream.abort()
