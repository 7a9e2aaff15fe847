"""The writer in a process of its own, started when the first log is to be written and kept alive.

It is started without fork and without this environment's packages (11 MB, 30 ms), and ends when the server does. Should
it die, it is started again, and each log goes on where its last told progress says.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import crishim
from crishim.errors import LogFailed
from crishim.logs.api import LogPlaces, LogProgress, LogWriter
from crishim.logs.follower import LAG, Counters
from crishim.logs.messages import make_begin, make_order, parse_progress

log = logging.getLogger(__name__)

_START = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from crishim.logs.worker import main
sys.exit(main(sys.argv[1:]))
"""
_PAUSE_FIRST, _PAUSE_MOST = 0.05, 5.0
"""Seconds before a writer that died is started again."""
_LINE_LIMIT = 1 << 20
_ANSWER_LIMIT = 30.0
"""Seconds for an answer that does not wait for a container's last words."""
_BARREN = 3
"""Processes in a row that ended before they answered anything: then it is no use to wait for the next."""
_END_LIMIT = 5.0
"""Seconds for the process to end after its socket was closed."""


class LogWriterProcess(LogWriter):
    """Sends orders to a process and awaits its answers."""

    def __init__(self, lock: Path) -> None:
        """`lock`: file that only one writer at a time holds, in a folder that is made if there is none."""
        super().__init__()
        self._lock = lock
        self._numbers = itertools.count(1)
        self._orders: dict[int, tuple[dict[str, Any], asyncio.Future[LogProgress | None]]] = {}
        """What was asked and not answered yet."""
        self._logs: dict[str, tuple[LogPlaces, LogProgress | None]] = {}
        """What is written, and as of when the writer told last."""
        self._counters: dict[str, int] = {}
        self._earlier: dict[str, int] = {}
        """Sum of the counters of processes that ended."""
        self._died = 0
        self._barren = 0
        self._closing = False
        self._writer: asyncio.StreamWriter | None = None
        self._pid = 0
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<LogWriterProcess pid {self._pid}, {len(self._logs)} logs, {len(self._orders)} orders open>"

    @property
    def pid(self) -> int:
        """The process, 0 while there is none."""
        return self._pid

    async def begin(self, places: LogPlaces, at: LogProgress | None, *, new: bool) -> LogProgress | None:
        """See LogWriter."""
        container_id = places.container_id
        if container_id in self._logs:
            return self._logs[container_id][1]
        self._logs[container_id] = places, at
        try:
            told = await self._ask(make_begin(next(self._numbers), places, at, new=new))
        except BaseException:
            # Cancelled, it may be under way.
            self._logs.pop(container_id, None)
            self._send(make_order(0, "drop", container_id))
            raise
        if container_id in self._logs:
            self._logs[container_id] = places, told
        return told

    async def complete(self, container_id: str) -> LogProgress | None:
        """See LogWriter."""
        if container_id not in self._logs:
            return None
        told = await self._ask(make_order(next(self._numbers), "complete", container_id))
        self._logs.pop(container_id, None)
        return told

    async def reopen(self, container_id: str) -> LogProgress | None:
        """See LogWriter."""
        return await self._ask(make_order(next(self._numbers), "reopen", container_id))

    async def drop(self, container_id: str) -> None:
        """See LogWriter."""
        if container_id in self._logs:
            await self._ask(make_order(next(self._numbers), "drop", container_id))
            self._logs.pop(container_id, None)

    def mark_late(self, container_id: str) -> None:
        """See LogWriter. A writer that dies meanwhile forgets it."""
        self._send(make_order(0, "late", container_id))

    def state(self) -> Mapping[str, object]:
        """See LogWriter."""
        counters = {name: self._earlier.get(name, 0) + self._counters.get(name, 0) for name in Counters.__slots__}
        lag = self._counters.get(LAG, 0)
        return {"pid": self._pid, "logs": len(self._logs), "restarts": self._died, LAG: lag, **counters}

    async def close(self) -> None:
        """See LogWriter."""
        self._closing = True
        if self._task is None:
            return
        if self._writer is not None and self._writer.can_write_eof():
            # It tells how far it is and ends.
            self._writer.write_eof()
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_LIMIT):
                    await asyncio.wait((self._task,))
        self._task.cancel()
        await asyncio.wait((self._task,))
        self._task = None
        self._fail_all("the writer of logs has ended")

    # --- orders

    async def _ask(self, message: dict[str, Any]) -> LogProgress | None:
        if self._task is None and not self._closing:
            self._task = asyncio.create_task(self._run(), name="log writer")
        elif self._closing:
            raise LogFailed("the writer of logs has ended")
        number = message["n"]
        answer: asyncio.Future[LogProgress | None] = asyncio.get_running_loop().create_future()
        self._orders[number] = message, answer
        self._send(message)
        limit = asyncio.timeout(None if message["do"] == "complete" else _ANSWER_LIMIT)
        try:
            async with limit:
                return await answer
        except TimeoutError as error:
            raise LogFailed(f"no answer of the writer of logs within {_ANSWER_LIMIT:g} s") from error
        finally:
            self._orders.pop(number, None)

    def _send(self, message: Mapping[str, Any]) -> None:
        # Without a process: all is sent when there is one.
        if self._writer is not None:
            self._writer.write(json.dumps(message).encode() + b"\n")

    def _fail_all(self, reason: str) -> None:
        for _, answer in self._orders.values():
            if not answer.done():
                answer.set_exception(LogFailed(reason))

    # --- the process

    async def _run(self) -> None:
        pause = _PAUSE_FIRST
        while True:
            loop = asyncio.get_running_loop()
            began = loop.time()
            try:
                ended = await self._live()
            except OSError as error:
                ended = f"cannot be started: {error}"
            if self._closing:
                if ended is not None:
                    log.warning("the writer of logs %s while it was ending", ended)
                return
            ended = ended or "ended by itself"
            self._died += 1
            self._barren += 1
            if self._barren >= _BARREN:
                self._fail_all(f"the writer of logs {ended}")
            for name in Counters.__slots__:
                self._earlier[name] = self._earlier.get(name, 0) + self._counters.get(name, 0)
            self._counters = {}
            log.error("the writer of logs %s; starting another one", ended)
            if loop.time() - began > _PAUSE_MOST:
                pause = _PAUSE_FIRST
            await asyncio.sleep(pause)
            pause = min(pause * 2, _PAUSE_MOST)

    async def _live(self) -> str | None:
        """One process, from start to end. How it died; None: it ended as it was asked to."""
        ours, theirs = socket.socketpair()
        process: subprocess.Popen[bytes] | None = None
        try:
            with theirs:
                process = await asyncio.to_thread(_start, theirs, self._lock)
            ours.setblocking(False)
            reader, writer = await asyncio.open_unix_connection(sock=ours, limit=_LINE_LIMIT)
        except BaseException:
            ours.close()
            if process is not None:
                process.kill()
                process.wait()
            raise
        self._writer, self._pid = writer, process.pid
        try:
            self._send_all()
            with suppress(ConnectionError):
                while line := await reader.readline():
                    self._take(json.loads(line))
        finally:
            self._writer, self._pid = None, 0
            writer.close()
            # Closed, it ends within a block's time; where it does not, it is stuck on a file system.
            status = await asyncio.shield(asyncio.to_thread(_end, process))
        return None if status == 0 else f"died with status {status}"

    def _send_all(self) -> None:
        """Tell a new process what is written, and ask again what the one before did not answer."""
        begun = {order["id"] for order, _ in self._orders.values() if order["do"] == "begin"}
        for container_id, (places, at) in self._logs.items():
            if container_id not in begun:
                self._send(make_begin(0, places, at, new=False))
        for message, _ in self._orders.values():
            self._send(message)

    def _take(self, told: Mapping[str, Any]) -> None:
        if "n" in told:
            self._take_answer(told)
        elif "counters" in told:
            self._counters = told["counters"]
        elif "note" in told:
            self.on_note(told["id"], told["note"])
        elif (progress := parse_progress(told["at"])) is not None:
            self._note_progress(told["id"], progress)

    def _take_answer(self, told: Mapping[str, Any]) -> None:
        self._barren = 0
        message, answer = self._orders.get(told["n"], ({}, None))
        if answer is None:
            if "error" in told:
                log.error("a log cannot be written any more: %s", told["error"])
            return
        if answer.done():
            return
        if "error" in told:
            answer.set_exception(LogFailed(told["error"]))
        else:
            progress = parse_progress(told["at"])
            if message["do"] == "reopen" and progress is not None:
                self._note_progress(message["id"], progress)
            answer.set_result(progress)

    def _note_progress(self, container_id: str, progress: LogProgress) -> None:
        if container_id in self._logs:
            self._logs[container_id] = self._logs[container_id][0], progress
            self.on_progress(container_id, progress)


def _start(theirs: socket.socket, lock: Path) -> subprocess.Popen[bytes]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    root = os.fspath(Path(crishim.__file__).parents[1])
    command = [sys.executable, "-I", "-S", "-c", _START, root, str(theirs.fileno()), os.fspath(lock)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])


def _end(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(_END_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
