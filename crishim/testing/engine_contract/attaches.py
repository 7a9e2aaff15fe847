"""Checks of attaching to a container's own process."""

from __future__ import annotations

import asyncio

from crishim.engine.api import Engine
from crishim.engine.values import ContainerPhase
from crishim.errors import EngineConflict, EngineNotFound
from crishim.model.streams import OutputStream, ProcessStreams
from crishim.testing.engine_contract.execs import ALL, OUTPUT, read_all
from crishim.testing.engine_contract.world import PATIENCE, World, refused, soon, until

_UNKNOWN = "0123456789abcdef" * 4


async def _said(streams: ProcessStreams, text: bytes) -> None:
    """Read until so much has come, and assert that it is this."""
    found = b""
    async with asyncio.timeout(PATIENCE):
        while len(found) < len(text):
            item = await streams.read()
            assert item is not None, f"ended after {found!r}"
            assert item[0] is OutputStream.STDOUT
            found += item[1]
    assert found == text


async def check_attach_carries_both_ways(engine: Engine, world: World) -> None:
    """What one writes all read; where stdin stays open, the end of one's input is not the container's."""
    async with world.container(engine, "hall", "cat", stdin=True) as container_id:
        first = await engine.attach(container_id, ALL, ends_stdin=False)
        second = await engine.attach(container_id, ALL, ends_stdin=False)
        await first.write(b"one\n")
        await _said(first, b"one\n")
        await _said(second, b"one\n")
        await first.close_stdin()
        await first.write(b"nobody hears this\n")
        await second.write(b"two\n")
        await _said(first, b"two\n")
        await first.close()
        await second.close()
        third = await engine.attach(container_id, ALL, ends_stdin=False)
        await third.write(b"three\n")
        await _said(third, b"three\n")
        assert (await engine.inspect(container_id)).phase is ContainerPhase.RUNNING
        await engine.kill(container_id, "SIGKILL")
        assert await read_all(third) == b""
        async with asyncio.timeout(PATIENCE):
            assert await third.exit_code() == 137
        await third.close()


async def check_stdin_once(engine: Engine, world: World) -> None:
    """The end of input reaches the container, whose output comes to its end, and then its exit code."""
    async with world.container(engine, "once", "cat", stdin=True, stdin_once=True) as container_id:
        attachment = await engine.attach(container_id, ALL, ends_stdin=True)
        await attachment.write(b"last words\n")
        await attachment.close_stdin()
        assert await read_all(attachment) == b"last words\n"
        async with asyncio.timeout(PATIENCE):
            assert await attachment.exit_code() == 0
        await attachment.close()


async def check_stdin_once_ends_when_the_client_vanishes(engine: Engine, world: World) -> None:
    """Closing without a word ends a stdin_once container's input, too."""
    async with world.container(engine, "gone", "cat", stdin=True, stdin_once=True) as container_id:
        attachment = await engine.attach(container_id, ALL, ends_stdin=True)
        await attachment.write(b"hello\n")
        await _said(attachment, b"hello\n")
        await attachment.close()
        await soon(engine.wait(container_id), "the end of a container whose input has ended")


async def check_attach_where_nothing_runs(engine: Engine, world: World) -> None:
    """In a container that does not run, or is not there."""
    await refused(engine.attach(_UNKNOWN, OUTPUT, ends_stdin=False), EngineNotFound, "attach to no container")
    created = await engine.create(world.name("asleep"), world.spec())
    await refused(engine.attach(created, OUTPUT, ends_stdin=False), EngineConflict, "attach to a created container")
    await engine.start(created)
    await engine.kill(created, "SIGKILL")
    await soon(engine.wait(created), "end by SIGKILL")
    await refused(engine.attach(created, OUTPUT, ends_stdin=False), EngineConflict, "attach to an exited container")
    await engine.remove(created)


async def check_dropped_attaches_leave_nothing_open(engine: Engine, world: World) -> None:
    """Many come and go; the container runs on, and the engine holds nothing for them."""
    async with world.container(engine, "station", "cat", stdin=True) as container_id:
        await engine.inspect(container_id)
        before = world.open_streams()
        for _ in range(20):
            attachment = await engine.attach(container_id, ALL, ends_stdin=False)
            await attachment.close()

        async def as_before() -> bool:
            return world.open_streams() <= before

        await until(as_before, f"open streams back to {before}")
        assert (await engine.inspect(container_id)).phase is ContainerPhase.RUNNING
