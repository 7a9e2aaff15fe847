"""A container's spool as the engine writes it, its log, and servers with their writers, one after the other."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from crishim.engine.simulated.spool import append, rotate
from crishim.engine.values import LogSpool
from crishim.errors import LogFailed
from crishim.logs.api import LogPlaces, LogProgress
from crishim.logs.process import LogWriterProcess

LIMIT = 30.0
PIECES = (
    b"",
    b"a",
    b"plain text ",
    b"\r",
    b"\0",
    b'"quoted" ',
    b"\\n",
    b"\\",
    b"<&>",
    "\u00e9\u2028".encode(),
    "🙂".encode(),
)


class Node:
    """A container's spool and log, and servers, each with a writer, one after the other."""

    def __init__(self, folder: Path, *, spool_size: int = 1 << 16) -> None:
        self.folder = folder
        self.limits = LogSpool(max_size=spool_size, max_files=99)
        self.places = LogPlaces(
            container_id="c1",
            spool=str(folder / "engine" / "c1-json.log"),
            folder=str(folder / "logs"),
            name="main/0.log",
        )
        self.spool = Path(self.places.spool)
        self.spool.parent.mkdir(parents=True)
        self.log = Path(self.places.folder, self.places.name)
        self.recorded: LogProgress | None = None
        """What the store of a server would hold."""
        self.kept: list[bytes] = []
        """All that was ever in the spool."""
        self.notes: list[str] = []
        self.rotated: list[Path] = []
        self.writer = self.new_writer()
        self._now = itertools.count(1_700_000_000_000_000_000, 1_000_001)

    def new_writer(self) -> LogWriterProcess:
        writer = LogWriterProcess(self.folder / "run" / "lock")
        writer.on_progress = lambda _, progress: setattr(self, "recorded", progress)
        writer.on_note = lambda _, note: self.notes.append(note)
        return writer

    async def begin(self) -> None:
        self.recorded = await self.writer.begin(self.places, None, new=True)

    def say(self, data: bytes, stream: str = "stdout") -> None:
        before = self.spool.stat().st_size if self.spool.exists() else 0
        if before >= self.limits.max_size:
            rotate(self.spool, self.limits.max_files)
            before = 0
        append(self.spool, LogSpool(max_size=1 << 40, max_files=99), data, stream, lambda: next(self._now))
        with self.spool.open("rb") as file:
            file.seek(before)
            self.kept.append(file.read())

    async def rotate(self) -> None:
        """What a kubelet does: rename, reopen, and put the name back if that fails."""
        old = self.log.with_name(f"0.log.{len(self.rotated):06}")
        self.log.rename(old)
        try:
            progress = await self.writer.reopen("c1")
        except LogFailed:
            assert not self.log.exists()
            old.rename(self.log)
        else:
            assert self.log.exists()
            self.rotated.append(old)
            self.recorded = progress

    async def kill_writer(self) -> None:
        if self.writer.pid:
            os.kill(self.writer.pid, signal.SIGKILL)

    async def restart_server(self, *, kill: bool) -> None:
        """End the server with its writer, and start another one, that knows what was recorded."""
        if kill:
            pid = self.writer.pid
            self.writer.on_progress = lambda _, progress: None
            if pid:
                os.kill(pid, signal.SIGKILL)
        await self.writer.close()
        self.writer = self.new_writer()
        await self.writer.begin(self.places, self.recorded, new=False)

    async def kill_server(self) -> None:
        await self.restart_server(kill=True)

    async def end_server(self) -> None:
        await self.restart_server(kill=False)

    async def complete(self) -> None:
        async with asyncio.timeout(LIMIT):
            progress = await self.writer.complete("c1")
        assert progress is not None

    def lines(self) -> list[bytes]:
        """Lines of the log and its rotated parts, in order."""
        parts = [path.read_bytes() for path in (*self.rotated, self.log)]
        assert all(part == b"" or part.endswith(b"\n") for part in parts), "torn"
        return b"".join(parts).split(b"\n")[:-1]

    def check(self) -> None:
        """The log says just what the engine kept, line for line."""
        told: list[tuple[bytes, ...]] = [tuple(line.split(b" ", 3)) for line in self.lines()]
        wanted: list[tuple[bytes, ...]] = []
        for line in b"".join(self.kept).splitlines():
            entry = json.loads(line)
            text = entry["log"].encode()
            tag = b"F" if text.endswith(b"\n") else b"P"
            wanted.append((entry["time"].encode(), entry["stream"].encode(), tag, text.removesuffix(b"\n")))
        assert _join(told) == _join(wanted)
        assert all(len(text) <= 16384 for *_, text in told)


def _join(lines: list[tuple[bytes, ...]]) -> list[tuple[bytes, bytes, bytes]]:
    """(time, stream, text) with the parts of one entry joined: replaced characters make the engine's parts longer."""
    joined: list[tuple[bytes, bytes, bytes]] = []
    for (moment, stream), group in itertools.groupby(lines, key=lambda line: (line[0], line[1])):
        joined.append((moment, stream, b"".join(text + (b"\n" if tag == b"F" else b"") for _, _, tag, text in group)))
    return joined


async def eventually(condition: Callable[[], bool], limit: float = LIMIT) -> None:
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.002)


def random_output(rng: random.Random) -> bytes:
    size = rng.choice((0, 1, 10, 100, 1000, 16383, 16384, 16385, 200_000)) if rng.random() < 0.3 else rng.randrange(200)
    line = b""
    while len(line) < size:
        line += rng.choice(PIECES) * rng.choice((1, 1, 1, 500))
    if rng.random() < 0.05:
        line = rng.randbytes(size)  # no text at all
    return line[:size] + (b"\n" if rng.random() < 0.9 else b"")
