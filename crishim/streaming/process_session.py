"""One exec or attach from its client's side: bytes and sizes between the wire and the process, then its status."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING

from crishim.errors import CRIError
from crishim.streaming.session import CLOSE_PATIENCE, ClientSession
from crishim.streaming.status import Status
from crishim.streaming.wires import Bytes, Input, InputEnd, ProcessEvent, ProcessWire, Ready, Resize

if TYPE_CHECKING:
    from crishim.aiokit.background import Background
    from crishim.model.streams import PreparedProcess, ProcessStreams, TerminalSize
    from crishim.streaming.connection import Connection

logger = logging.getLogger(__name__)

STREAMS_LIMIT = 30.0
"""Seconds that a client has to open its streams."""
SIZE_WAIT = 0.2
"""Seconds that a terminal's first size is waited for, so that the program finds it in force when it begins."""
RELEASE_LIMIT = 10.0
"""Seconds that letting go of a process may take."""
INPUT_HIGH, INPUT_LOW = 512 << 10, 128 << 10
"""Bytes of input that wait for the process when reading from the client stops, and when it goes on. One reading of the
socket, 256 KiB at most, is not enough to stop it."""
_JOINED = 256 << 10
"""Bytes of input up to which what waits goes on as one: clients send 32 KiB at a time, and typed keys come singly."""
_PIECE = 1 << 20
"""Bytes of output that go into one frame at most."""
_YIELD_AFTER = 1 << 20
"""Bytes of output after which other sessions have a turn, should nothing have had to be waited for."""

_STOPPED = Status(error="crishim was stopped before the process ended", code=503, reason="ServiceUnavailable")


class ProcessSession(ClientSession[ProcessEvent]):
    """Serves one client from the upgrade to the connection's end."""

    _wire: ProcessWire

    def __init__(
        self,
        connection: Connection,
        wire: ProcessWire,
        process: PreparedProcess,
        background: Background,
        *,
        tells_exit_code: bool,
    ) -> None:
        """`tells_exit_code`: exec; an attach ends with success."""
        super().__init__(connection, wire, background)
        self._process = process
        self._tells_exit_code = tells_exit_code
        self._ready = asyncio.Event()
        self._input: deque[Bytes] = deque()
        self._waiting = 0
        self._input_ended = False
        self._input_news = asyncio.Event()
        self._size: TerminalSize | None = None
        self._size_news = asyncio.Event()

    async def _serve(self) -> str:
        status = await self._run_process()
        self._ending = True
        self._connection.write(self._wire.ended(status))
        self._connection.resume("input")
        await self._connection.end_after_client(CLOSE_PATIENCE)
        return status.error or f"exit code {status.exit_code}"

    def _last_words(self) -> bytes:
        """A client that was told nothing would take the end of its streams for the process's success."""
        if self._ending or not self._ready.is_set():
            return super()._last_words()
        return self._wire.cut(_STOPPED)

    def _drop_all(self) -> None:
        """`_run_process` has let go of all when it ended."""

    # --- from the client ----------------------------------------------------------------------------------------

    def _handle(self, events: list[ProcessEvent]) -> None:
        for event in events:
            if isinstance(event, Input):
                self._input.append(event.data)
                self._waiting += len(event.data)
                self._input_news.set()
                if self._waiting >= INPUT_HIGH:
                    self._connection.pause("input")
            elif isinstance(event, Resize):
                self._size = event.size
                self._size_news.set()
            elif isinstance(event, InputEnd):
                self._input_ended = True
                self._input_news.set()
            elif isinstance(event, Ready):
                self._ready.set()

    # --- to and from the process --------------------------------------------------------------------------------

    async def _run_process(self) -> Status:
        wanted = self._process.wanted
        try:
            async with asyncio.timeout(STREAMS_LIMIT):
                await self._ready.wait()
        except TimeoutError:
            return Status(
                error="the client did not open all streams that it had asked for", code=400, reason="BadRequest"
            )
        if self._wire.has_sizes:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SIZE_WAIT):
                    await self._size_news.wait()
        given = self._size
        try:
            streams = await self._process.start(given)
        except CRIError as error:
            return Status.of_error(error)
        except Exception:
            logger.exception("start for a client failed")
            return Status(error="internal error: see crishim's log")
        pumps = [self._pump(self._copy_input(streams), "input")] if wanted.stdin else []
        if self._wire.has_sizes:
            pumps.append(self._pump(self._copy_sizes(streams, given), "sizes"))
        try:
            await self._copy_output(streams)
            return Status(await streams.exit_code() if self._tells_exit_code else 0)
        except CRIError as error:
            return Status.of_error(error)
        finally:
            self._background.start(self._let_go(pumps, streams), name="letting go of a process")

    def _pump(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        return self._background.start(work, name=f"{name} of a process")

    @staticmethod
    async def _let_go(pumps: list[asyncio.Task[None]], streams: ProcessStreams) -> None:
        for pump in pumps:
            pump.cancel()
        if pumps:
            await asyncio.wait(pumps)
        async with asyncio.timeout(RELEASE_LIMIT):
            await streams.close()

    async def _copy_output(self, streams: ProcessStreams) -> None:
        connection, wire = self._connection, self._wire
        moved = 0
        while (item := await streams.read()) is not None:
            stream, data = item
            if len(data) <= _PIECE:
                connection.write_parts(*wire.output(stream, data))
            else:
                for at in range(0, len(data), _PIECE):
                    connection.write_parts(*wire.output(stream, data[at : at + _PIECE]))
            moved += len(data)
            if connection.congested:
                moved = 0
                await connection.drained()
            elif moved >= _YIELD_AFTER:
                moved = 0
                await asyncio.sleep(0)

    async def _copy_input(self, streams: ProcessStreams) -> None:
        queue, connection = self._input, self._connection
        try:
            while True:
                while not queue:
                    if self._input_ended:
                        await streams.close_stdin()
                        return
                    self._input_news.clear()
                    await self._input_news.wait()
                data = self._next_input()
                await streams.write(data)
                self._waiting -= len(data)
                if connection.reading_paused and self._waiting <= INPUT_LOW:
                    connection.resume("input")
        except CRIError as error:
            # The output's end tells the client; what it still sends has nowhere to go.
            logger.debug("input for a process ended: %s", error)

    def _next_input(self) -> bytes | memoryview:
        queue = self._input
        data = queue.popleft()
        if not queue or len(data) >= _JOINED:
            return memoryview(data) if isinstance(data, bytearray) else data
        parts, size = [data], len(data)
        while queue and size + len(queue[0]) <= _JOINED:
            parts.append(queue.popleft())
            size += len(parts[-1])
        return b"".join(parts)

    async def _copy_sizes(self, streams: ProcessStreams, given: TerminalSize | None) -> None:
        """Of sizes that come while one is being set only the last counts."""
        try:
            while True:
                if self._size is None or self._size == given:
                    self._size_news.clear()
                    await self._size_news.wait()
                    continue
                given = self._size
                await streams.resize(given)
        except CRIError as error:
            logger.debug("resizing a terminal ended: %s", error)
