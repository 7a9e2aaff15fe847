"""The writer's process: killed, starved and left alone, it writes each line once."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from pathlib import Path

import pytest

from crishim.errors import LogFailed
from crishim.logs.api import LogPlaces
from tests.component.logs.node import LIMIT, Node, eventually


async def test_it_follows_at_once_and_waits_for_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.begin()
    assert node.log.read_bytes() == b""
    for number in range(20):
        node.say(b"line %d\n" % number)
        await eventually(lambda: len(node.lines()) == len(node.kept))
    status = Path(f"/proc/{node.writer.pid}/status").read_text()
    switches = int(status.rpartition("\nvoluntary_ctxt_switches:")[2].split()[0])
    await asyncio.sleep(0)
    assert switches < 2000
    await node.complete()
    node.check()
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


async def test_figures_of_a_log_for_which_there_is_no_room(tmp_path: Path) -> None:
    """What is behind is told while it is, and what comes after the container's end was told is counted."""
    node = Node(tmp_path)
    await node.begin()
    limit, most = resource.prlimit(node.writer.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(node.writer.pid, resource.RLIMIT_FSIZE, (4096, most))
    node.say((b"x" * 99 + b"\n") * 100)
    await eventually(lambda: node.writer.state()["full_disk"] == 1 and node.writer.state()["lag_bytes"] != 0)
    state = node.writer.state()
    assert state["written_bytes"] == node.log.stat().st_size <= 4096
    assert len(node.lines()) < len(b"".join(node.kept).splitlines())
    held = node.lines()
    node.writer.mark_late("c1")
    await node.writer.drop("another")
    resource.prlimit(node.writer.pid, resource.RLIMIT_FSIZE, (limit, most))
    await node.complete()
    node.check()
    await eventually(lambda: node.writer.state()["lag_bytes"] == 0)
    state = node.writer.state()
    assert state["written_bytes"] == node.log.stat().st_size
    assert state["late_lines"] == len(node.lines()) - len(held)
    assert state["full_disk"] == 1
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
