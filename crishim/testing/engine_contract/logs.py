"""Checks of reading what a container has printed."""

from __future__ import annotations

import asyncio

from crishim.engine.api import Engine
from crishim.engine.values import LogEntry
from crishim.errors import EngineNotFound
from crishim.testing.engine_contract.world import PATIENCE, World, refused, soon, until


async def _read(engine: Engine, container_id: str, since: int = 0) -> list[LogEntry]:
    """All of a log, whose container has ended."""
    async with asyncio.timeout(PATIENCE), engine.read_log(container_id, since, tty=False) as log:
        return [entry async for entries in log for entry in entries]


async def check_log_is_read(engine: Engine, world: World) -> None:
    """What a container has printed is there after its end, with its time, from any moment on."""
    async with world.container(engine, "says", "echo", "some", "words") as container_id:
        await soon(engine.wait(container_id), "the end of echo")
        shown = await engine.inspect(container_id)
        [entry] = await _read(engine, container_id)
        assert (entry.stream, entry.text) == ("stdout", b"some words\n")
        assert shown.created_at <= entry.time
        assert await _read(engine, container_id, entry.time) == [entry]
        assert await _read(engine, container_id, entry.time + 1) == []


async def check_log_ends_with_its_container(engine: Engine, world: World) -> None:
    """As long as a container runs, there may be more; one that has not been started has nothing."""
    created = await engine.create(world.name("waits"), world.spec("sleep", "infinity"))
    assert await _read(engine, created) == []
    await engine.start(created)
    reading = asyncio.create_task(_read(engine, created))
    done, _ = await asyncio.wait((reading,), timeout=0.2)
    assert not done, "it may print something yet"
    await engine.kill(created, "SIGKILL")
    assert await reading == []
    await engine.remove(created)


async def check_log_may_be_left(engine: Engine, world: World) -> None:
    """Whoever has read enough leaves, and nothing stays open."""
    async with world.container(engine, "quiet", "sleep", "infinity") as container_id:
        before = world.open_calls()

        async def all_closed() -> bool:
            return world.open_calls() <= before

        async with engine.read_log(container_id, 0, tty=False):
            pass
        await until(all_closed, "what was opened to read a log is closed")


async def check_log_of_unknown_container(engine: Engine, world: World) -> None:
    """EngineNotFound."""
    await refused(_read(engine, world.name("missing")), EngineNotFound, "the log of no container")
