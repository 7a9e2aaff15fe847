"""Attach on the Docker Engine: the streams of a container's first process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

from crishim.engine.docker.connection import Connection
from crishim.engine.docker.deadlines import Deadlines
from crishim.engine.docker.hijacked_process import HijackedProcess
from crishim.engine.docker.terminal import detach_keys
from crishim.engine.values import ContainerPhase, EngineContainer
from crishim.errors import EngineConflict, EngineNotFound
from crishim.model.streams import TerminalSize, WantedStreams

_KILLED = 137


class DockerAttachment(HijackedProcess):
    """One connection to a container's streams."""

    def __init__(
        self,
        connection: Connection,
        limits: Deadlines,
        *,
        container_id: str,
        wanted: WantedStreams,
        ends_stdin: bool,
        wait: Callable[[str], Awaitable[None]],
        inspect: Callable[[str], Awaitable[EngineContainer]],
    ) -> None:
        """`wait` and `inspect`: the engine's."""
        resize = f"containers/{container_id}/resize"
        super().__init__(connection, limits, container_id=container_id, wanted=wanted, resize=resize)
        self._ends_stdin = ends_stdin
        self._wait = wait
        self._inspect = inspect
        self._stdin_open = wanted.stdin

    async def start(self, size: TerminalSize | None) -> None:
        """Connect, and give the terminal this size. Raises EngineConflict when the container does not run.

        Whoever calls it owes a `close`, also when it raised.
        """
        names = {name for name in ("stdin", "stdout", "stderr") if getattr(self._wanted, name)}
        if not self._ends_stdin:
            # Where stdin is not taken, the engine notices that we have left when the container next prints something.
            names.add("stdin")
        query = urlencode({"stream": "1", "detachKeys": detach_keys()} | dict.fromkeys(sorted(names), "1"))
        path = f"containers/{self.container_id}/attach?{query}"
        await self._take_over("attach", "attach to a container", path, {})
        # The engine attaches to what does not run, too, and would wait for its start.
        if (await self._inspect(self.container_id)).phase is not ContainerPhase.RUNNING:
            raise EngineConflict(f"container {self.container_id[:13]} is not running", container=self.container_id)
        if size is not None and self._wanted.tty:
            await self.resize(size)

    async def write(self, data: bytes | memoryview) -> None:
        if self._stdin_open:
            await super().write(data)

    async def close_stdin(self) -> None:
        if self._wanted.tty:
            return
        self._stdin_open = False
        # Where stdin stays open for others, the engine would take the end for ours altogether, output included.
        if self._ends_stdin:
            self._started().write_eof()

    async def _runs(self) -> bool:
        try:
            return (await self._inspect(self.container_id)).phase is ContainerPhase.RUNNING
        except EngineNotFound:
            return False

    async def exit_code(self) -> int:
        try:
            await self._wait(self.container_id)
            return (await self._inspect(self.container_id)).exit_code
        except EngineNotFound:
            return _KILLED  # removed meanwhile, which kills it

    async def close(self) -> None:
        if self._stream is not None:
            self._stream.abort()
