"""Exec and attach on the Docker Engine: `EngineExec` and `ProcessStreams` on a hijacked connection."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from crishim.engine.docker import processes
from crishim.engine.docker.connection import Connection
from crishim.engine.docker.deadlines import Deadlines
from crishim.engine.docker.errors import guard
from crishim.engine.docker.hijacked_process import HijackedProcess
from crishim.engine.features import Feature, has
from crishim.engine.streams import EngineExec
from crishim.engine.values import EngineFacts
from crishim.errors import CRIError, EngineNotFound, EngineUnavailable, ExecFailed
from crishim.model.streams import TerminalSize, WantedStreams

log = logging.getLogger(__name__)

_FIRST_LOOK, _SLOWEST_LOOK = 0.005, 0.1
"""Seconds between looks at an exec that is ending."""
_FIRST_START_LOOK, _START_LOOK = 0.04, 0.02
"""The same for one that is being started, for which the engine needs 30 ms and more: asked in these it is slower."""
_WORDS_LIMIT = 64 << 10
"""Bytes of the engine's words that are read when a process could not be started."""
_LOST_START = 30.0
"""Seconds after which an exec that has neither started nor failed will not start any more: its request was lost."""
_REMEMBER_AFTER = 1.0
"""Seconds after which an exec that still runs is asked for its process: an engine that is restarted forgets it."""
_KILLED = 137


@dataclass(frozen=True, slots=True)
class ExecState:
    """What exec inspect says."""

    running: bool
    """True from the moment at which the engine begins to start it."""
    pid: int
    """On the host; 0 before it has started, and for ever if it does not."""
    exit_code: int | None

    @property
    def failed(self) -> bool:
        """It did not start and will not."""
        return self.exit_code is not None and not self.pid


class DockerExec(HijackedProcess, EngineExec):
    """One exec of the engine's."""

    def __init__(
        self,
        connection: Connection,
        limits: Deadlines,
        facts: EngineFacts,
        *,
        exec_id: str,
        container_id: str,
        wanted: WantedStreams,
    ) -> None:
        super().__init__(connection, limits, container_id=container_id, wanted=wanted, resize=f"exec/{exec_id}/resize")
        self.id = exec_id
        self._facts = facts
        self._asked = False
        self._first_size: TerminalSize | None = None
        self._sizing: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._remembering: asyncio.TimerHandle | None = None
        self._process: processes.Process | None = None
        self._last: ExecState | None = None
        """What the engine said once it had ended: it says the same for ever."""

    async def start(self, size: TerminalSize | None = None) -> None:
        assert not self._asked, "an exec is started once"
        body: dict[str, Any] = {"Detach": False, "Tty": self._wanted.tty}
        if size is not None and self._wanted.tty:
            if has(self._facts, Feature.CONSOLE_SIZE):
                body["ConsoleSize"] = [size.height, size.width]
            else:
                # The engine takes it up when the process has started: earlier than if we waited for that to be told.
                self._first_size = size
        self._asked = True
        stream = await self._take_over("exec", "start of an exec", f"exec/{self.id}/start", body)
        if self._first_size is not None:
            self._sizing = self._connection.finish(self._give_first_size(), name=f"size of exec {self.id[:13]}")
        if not self._wanted.stdin:
            stream.write_eof()
        self._remembering = asyncio.get_running_loop().call_later(_REMEMBER_AFTER, self._remember)

    def _remember(self) -> None:
        if self._process is None and not self._started().ended:
            self._connection.finish(self._ask_for_process(), name=f"process of exec {self.id[:13]}")

    async def _ask_for_process(self) -> None:
        try:
            await self._inspect()
            log.debug("exec %s is %s", self.id[:13], self._process)
        except CRIError as error:
            log.debug("the process of an exec is not known: %s", error)

    async def _give_first_size(self) -> None:
        assert self._first_size is not None, "called with one"
        try:
            await self._terminal.resize(self._first_size)
            self._first_size = None
        except CRIError as error:
            log.debug("a terminal's first size will be set again: %s", error)

    async def up(self) -> None:
        stream = self._started()
        await self._pause(_FIRST_START_LOOK)
        state = await self._until_known()
        if state is None or state.failed:
            raise ExecFailed(await self._words(), container=self.container_id)
        if self._sizing is not None:
            await asyncio.wait({self._sizing})
        if self._first_size is not None and not stream.ended:
            size, self._first_size = self._first_size, None
            await self.resize(size)

    async def _until_known(self) -> ExecState | None:
        """The exec once it has started or failed; None if nothing becomes of it."""
        delay = _START_LOOK
        loop = asyncio.get_running_loop()
        end = loop.time() + _LOST_START
        while True:
            state = await self._inspect()
            if state.pid or state.exit_code is not None:
                return state
            if not state.running and loop.time() > end:
                return None
            await self._pause(delay)
            delay = min(2 * delay, _SLOWEST_LOOK)

    async def _pause(self, seconds: float) -> None:
        """Wait so long, or until something comes from the process, its end included."""
        if self._stream is None or self._stream.touched.is_set():
            return await asyncio.sleep(seconds)
        try:
            async with asyncio.timeout(seconds):
                await self._stream.touched.wait()
        except TimeoutError:
            return None

    async def _words(self) -> str:
        """The engine's reason: it comes as output, in place of the process's."""
        words = b""
        while (item := await self.read()) is not None:
            words = (words + item[1])[:_WORDS_LIMIT]
        return words.decode(errors="replace").strip() or "the engine could not start the process, and gave no reason"

    async def exit_code(self) -> int:
        delay = _FIRST_LOOK
        loop = asyncio.get_running_loop()
        end = loop.time() + _LOST_START
        while True:
            try:
                state = await self._inspect()
            except EngineNotFound as error:
                await self._container_runs()  # raises the same where the container is gone, too
                words = "the engine was restarted and does not know the process any more"
                raise EngineUnavailable(words, container=self.container_id) from error
            if state.failed:
                raise ExecFailed("the engine could not start the process", container=self.container_id)
            if not state.running and state.exit_code is not None:
                return state.exit_code
            if delay >= _SLOWEST_LOOK and not await self._container_runs():
                return _KILLED  # with the container, and the engine has lost sight of it
            if not state.running and loop.time() > end:
                raise EngineUnavailable("the engine did not take up the exec", container=self.container_id)
            await asyncio.sleep(delay)
            delay = min(2 * delay, _SLOWEST_LOOK)

    async def _container_runs(self) -> bool:
        async with guard("inspect of a container", self._limits.inspect, container=self.container_id):
            shown = await self._connection.get(f"containers/{self.container_id}/json", versioned=True)
        return bool(shown["State"]["Running"])

    async def _inspect(self) -> ExecState:
        if self._last is not None:
            return self._last
        async with guard("inspect of an exec", self._limits.inspect, container=self.container_id):
            shown = await self._connection.get(f"exec/{self.id}/json", versioned=True)
            state = ExecState(bool(shown["Running"]), int(shown["Pid"] or 0), shown["ExitCode"])
        if state.running and state.pid and self._process is None:
            self._process = processes.read_process(state.pid)
        if not state.running and state.exit_code is not None:
            self._last = state
        return state

    async def kill(self) -> bool:
        if not self._asked:
            return False
        try:
            state = await self._until_known()
        except EngineNotFound:
            return await self._kill_unknown()
        if state is None or not state.running or not state.pid:
            return False
        return await self._kill(state.pid)

    async def _kill_unknown(self) -> bool:
        """The container is gone, and with it its processes; or the engine has been restarted and forgot its execs."""
        if (process := self._process) is None:
            return False
        now = await asyncio.to_thread(processes.read_process, process.pid)
        return now is not None and now.started == process.started and await self._kill(process.pid)

    async def _kill(self, pid: int) -> bool:
        killed = await asyncio.to_thread(processes.kill_family, pid, self.container_id)
        log.info("killed an exec's %d processes", killed, extra={"ids": {"container": self.container_id}})
        return killed > 0

    # --- streams

    async def close_stdin(self) -> None:
        if not self._wanted.tty:
            self._started().write_eof()

    async def _runs(self) -> bool:
        try:
            return (await self._inspect()).running
        except EngineNotFound:
            return False

    async def close(self) -> None:
        if self._closing is None:
            self._closing = self._connection.finish(self._close(), name=f"close exec {self.id[:13]}")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._remembering is not None:
            self._remembering.cancel()
        if self._stream is None:
            return
        ended = self._stream.ended
        self._stream.abort()
        if ended or not self._wanted.tty:
            return
        # The engine keeps the terminal open, and the process would wait at it for ever.
        try:
            state = await self._inspect()
            if state.running and state.pid:
                await asyncio.to_thread(processes.hang_up, state.pid, self.container_id)
        except EngineNotFound:
            return
        except CRIError as error:
            log.warning("a terminal could not be hung up: %s", error, extra={"ids": {"container": self.container_id}})
