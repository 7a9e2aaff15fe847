"""The writer's process under what a node seldom has: very much, very long, very short, and nowhere to write to."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from crishim.engine.simulated.spool import append, encode, rotate
from crishim.engine.values import LogSpool
from crishim.logs.api import LogPlaces
from crishim.logs.convert import convert
from crishim.logs.process import LogWriterProcess
from tests.component.logs.node import LIMIT, Node, eventually


def peak(pid: int) -> int:
    """Most memory that a process has used, in bytes."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10


async def test_ten_rotations_in_a_second_while_50_megabytes_are_printed(
    tmp_path: Path, scaled: Callable[[int], int]
) -> None:
    node = Node(tmp_path)
    await node.begin()
    moments = iter(range(1_700_000_000 * 10**9, 1 << 62, 1001))
    block = b"".join(encode((b"x" * 99 + b"\n") * 5000, "stdout", lambda: next(moments)))
    expected, _ = convert(block)
    stop = threading.Event()
    written = [0]
    feeder = threading.Thread(target=_feed, args=(node.spool, block, stop, written))
    feeder.start()
    seconds = max(scaled(10) - 2, 1)
    end = time.monotonic() + seconds
    for number in range(10 * seconds):
        await asyncio.sleep(max(0.0, end - seconds + number / 10 - time.monotonic()))
        await node.rotate()
        assert node.rotated[-1].read_bytes()[-1:] in (b"", b"\n"), "torn"
    stop.set()
    await asyncio.to_thread(feeder.join)
    await node.complete()
    assert len(node.rotated) == 10 * seconds
    told = b"".join(path.read_bytes() for path in (*node.rotated, node.log))
    assert told == expected * written[0]
    await node.writer.close()


def _feed(spool: Path, block: bytes, stop: threading.Event, written: list[int]) -> None:
    """Write a hundred blocks a second, as fast as this machine does, and rename files as an engine does."""
    size, due = 0, time.monotonic()
    while not stop.is_set():
        if size > 16 << 20:
            rotate(spool, 99)
            size = 0
        with spool.open("ab", buffering=0) as file:
            size += file.write(block)
        written[0] += 1
        due += 0.01
        time.sleep(max(0.0, due - time.monotonic()))


async def test_a_line_without_an_end_takes_no_memory(tmp_path: Path, scaled: Callable[[int], int]) -> None:
    """The engine cuts it into parts, and so is it written: 100 MB of it (a tenth in short)."""
    node = Node(tmp_path)
    await node.begin()
    block = b"".join(encode(b"x" * (1 << 20), "stdout", lambda: 1_700_000_000 * 10**9))
    expected, _ = convert(block)
    blocks = scaled(100)
    for number in range(blocks):
        if number % 16 == 15:
            rotate(node.spool, 99)
        with node.spool.open("ab", buffering=0) as file:
            file.write(block)
        await asyncio.sleep(0)
    pid = node.writer.pid
    await eventually(lambda: node.log.stat().st_size == blocks * len(expected))
    assert peak(pid) < 24 << 20
    await node.complete()
    assert set(node.log.read_bytes().splitlines()) == set(expected.splitlines())
    assert {line.split(b" ", 3)[2] for line in expected.splitlines()} == {b"P"}
    await node.writer.close()


async def test_hundreds_of_containers_that_live_for_a_moment(tmp_path: Path, scaled: Callable[[int], int]) -> None:
    """Their logs are complete when that is told, and nothing of them stays open or watched."""
    writer = LogWriterProcess(tmp_path / "lock")
    moments = itertools.count(1_700_000_000 * 10**9, 1001)
    at_once = asyncio.Semaphore(20)

    async def live(number: int) -> None:
        name = f"c{number}"
        spool = tmp_path / "engine" / name / f"{name}-json.log"
        places = LogPlaces(container_id=name, spool=str(spool), folder=str(tmp_path / "logs"), name=f"{name}/0.log")
        async with at_once:
            spool.parent.mkdir(parents=True)
            await writer.begin(places, None, new=True)
            for word in range(number % 4):
                append(spool, LogSpool(), b"%d of %d\n" % (word, number), "stdout", lambda: next(moments))
                if number % 5 == 4:
                    rotate(spool, 4)
            await writer.complete(name)
            shutil.rmtree(spool.parent)  # RemoveContainer
            await writer.drop(name)

    count = scaled(3000)
    async with asyncio.timeout(LIMIT * 4):
        await asyncio.gather(*(live(number) for number in range(count)))
    for number in range(count):
        lines = (tmp_path / "logs" / f"c{number}" / "0.log").read_bytes().splitlines()
        said = [line.split(b" ", 3)[3] for line in lines]
        assert said == [b"%d of %d" % (word, number) for word in range(number % 4)]
    assert writer.state()["logs"] == 0
    descriptors = Path(f"/proc/{writer.pid}/fd")
    opened = {fd.name: os.readlink(fd) for fd in descriptors.iterdir()}
    assert not [target for target in opened.values() if str(tmp_path) in target and not target.endswith("/lock")]
    [inotify] = [fd for fd, target in opened.items() if "inotify" in target]
    assert "wd:" not in Path(f"/proc/{writer.pid}/fdinfo/{inotify}").read_text()
    await writer.close()


async def test_the_logs_folder_is_removed_while_it_is_written(tmp_path: Path) -> None:
    """What was written goes with it; the next reopened file has what comes then, and nothing waits for anything."""
    node = Node(tmp_path)
    await node.begin()
    node.say(b"one\n")
    await eventually(lambda: node.log.stat().st_size > 0)
    shutil.rmtree(node.places.folder)
    node.say(b"two\n")
    await eventually(lambda: node.writer.state()["read_bytes"] == node.spool.stat().st_size)
    await node.writer.reopen("c1")
    node.say(b"three\n")
    await node.complete()
    assert [line.split(b" ", 3)[3] for line in node.lines()] == [b"three"]
    assert node.notes == []
    await node.writer.close()
