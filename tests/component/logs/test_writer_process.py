"""The writer's process: killed, starved and left alone, it writes each line once."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

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


async def test_any_order_of_output_rotations_and_kills(tmp_path: Path, scaled: Callable[[int], int]) -> None:
    rounds = scaled(1000)
    for seed in range(rounds if rounds == 1000 else 25):
        rng = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        node = Node(folder, spool_size=rng.choice((1 << 12, 1 << 16, 1 << 20)))
        await node.begin()
        actions: list[Callable[[], Awaitable[None]]] = [
            node.rotate,
            node.kill_writer,
            node.kill_server,
            node.end_server,
        ]
        try:
            for _ in range(rng.randrange(2, 8)):
                for _ in range(rng.randrange(8)):
                    node.say(random_output(rng), rng.choice(("stdout", "stderr")))
                    if rng.random() < 0.3:
                        await asyncio.sleep(rng.random() * 0.004)
                [action] = rng.choices(actions, (3, 2, 2, 1))
                async with asyncio.timeout(LIMIT):
                    await action()
            await node.complete()
            node.check()
            assert not [note for note in node.notes if "missing" in note or "twice" in note]
        except BaseException:
            print(f"seed {seed}: {node.notes}")
            raise
        finally:
            await node.writer.close()


async def test_it_follows_at_once_and_waits_for_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.begin()
    assert node.log.read_bytes() == b""
    for number in range(20):
        node.say(b"line %d\n" % number)
        await eventually(lambda: len(node.lines()) == len(node.kept), 5)
    status = Path(f"/proc/{node.writer.pid}/status").read_text()
    switches = int(status.rpartition("\nvoluntary_ctxt_switches:")[2].split()[0])
    await asyncio.sleep(0)
    assert switches < 2000
    await node.complete()
    node.check()
    await node.writer.close()


async def test_ten_rotations_in_a_second_while_much_is_printed(tmp_path: Path) -> None:
    node = Node(tmp_path, spool_size=1 << 20)
    await node.begin()
    for number in range(10):
        for _ in range(5):
            node.say(b"a line of a loud container %d\n" % number * 2000)
            await asyncio.sleep(0.01)
        await node.rotate()
    await node.complete()
    node.check()
    assert len(node.rotated) == 10
    await node.writer.close()


async def test_a_reopen_that_fails_goes_on_with_the_old_file(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.begin()
    node.say(b"one\n")
    old = node.log.with_name("old")
    node.log.rename(old)
    node.log.mkdir()
    with pytest.raises(LogFailed, match=str(node.log)):
        await node.writer.reopen("c1")
    node.log.rmdir()
    old.rename(node.log)
    node.say(b"two\n")
    await node.complete()
    node.check()
    await node.writer.close()


@pytest.mark.parametrize("what", ["reopen", "complete", "drop"])
async def test_a_log_that_is_not_written(tmp_path: Path, what: str) -> None:
    node = Node(tmp_path)
    await node.begin()
    if what == "reopen":
        with pytest.raises(LogFailed):
            await node.writer.reopen("other")
    else:
        assert await getattr(node.writer, what)("other") is None
    await node.writer.close()


async def test_the_engines_folder_must_be_there(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.spool.parent.rmdir()
    with pytest.raises(LogFailed, match=str(node.spool.parent)):
        await node.begin()
    await node.writer.close()


async def test_it_ends_with_the_server_and_the_next_ones_waits_for_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.begin()
    first = node.writer
    os.kill(first.pid, signal.SIGSTOP)
    node.say(b"one\n")
    second = node.new_writer()
    beginning = asyncio.create_task(second.begin(node.places, node.recorded, new=False))
    done, _ = await asyncio.wait((beginning,), timeout=0.3)
    assert not done, "the first may be within a write"
    os.kill(first.pid, signal.SIGTERM)  # the service manager's, to all of a service's processes
    os.kill(first.pid, signal.SIGCONT)
    await first.close()
    await beginning
    node.writer = second
    await node.complete()
    node.check()
    await second.close()
    with pytest.raises(LogFailed):
        await second.begin(node.places, None, new=True)


async def test_progress_is_told_at_the_end(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.begin()
    begun = node.recorded
    node.say(b"one\n")
    await eventually(lambda: node.log.stat().st_size > 0)
    assert node.recorded == begun, "not for each line"
    await node.writer.close()
    assert node.recorded is not None
    assert node.recorded.spool[1] == node.spool.stat().st_size
    assert node.recorded.file == (node.log.stat().st_ino, node.log.stat().st_size)


async def test_state_counts_over_lives(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.begin()
    for _ in range(2):
        node.say(b"x" * 100 + b"\n")
        await eventually(lambda: len(node.lines()) == len(node.kept))
        await node.rotate()
    pid = node.writer.pid
    await node.kill_writer()
    await eventually(lambda: node.writer.pid not in (0, pid))
    await node.complete()
    state = node.writer.state()
    assert (state["logs"], state["restarts"], state["lost_bytes"]) == (0, 1, 0)
    await node.writer.close()


async def test_a_writer_that_cannot_live_is_told_and_not_waited_for(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").mkdir()
    async with asyncio.timeout(LIMIT):
        with pytest.raises(LogFailed, match="died with status 1"):
            await node.begin()
    (tmp_path / "run" / "lock").rmdir()
    async with asyncio.timeout(LIMIT):
        await node.begin()
    await node.complete()
    await node.writer.close()


async def test_it_is_small(tmp_path: Path) -> None:
    """It has nothing of the server's: neither asyncio nor any package."""
    node = Node(tmp_path)
    await node.begin()
    node.say(b"one\n")
    await eventually(lambda: node.log.stat().st_size > 0)
    mapped = Path(f"/proc/{node.writer.pid}/maps").read_text()
    assert "site-packages" not in mapped
    assert "_asyncio" not in mapped
    status = Path(f"/proc/{node.writer.pid}/status").read_text()
    assert int(status.partition("VmRSS:")[2].split()[0]) < 16 * 1024
    await node.complete()
    await node.writer.close()


async def test_a_begin_that_is_cancelled_leaves_no_log_open(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.begin()
    pid = node.writer.pid
    os.kill(pid, signal.SIGSTOP)
    other = LogPlaces(container_id="c2", spool=node.places.spool, folder=node.places.folder, name="other.log")
    beginning = asyncio.create_task(node.writer.begin(other, None, new=True))
    await asyncio.sleep(0)
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    os.kill(pid, signal.SIGCONT)
    node.say(b"one\n")
    await node.rotate()  # answered after what was asked before
    await node.complete()
    assert not [link for link in Path(f"/proc/{pid}/fd").iterdir() if os.readlink(link).endswith(".log")]
    assert await node.writer.begin(other, None, new=True) is not None
    await node.writer.close()
