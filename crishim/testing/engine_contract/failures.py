"""Checks of an engine that goes away, of cancelled calls and of closing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable

from crishim.engine.api import Engine
from crishim.engine.values import ContainerPhase, EngineEvent
from crishim.errors import EngineNotFound, EngineUnavailable
from crishim.testing.engine_contract.execs import OUTPUT
from crishim.testing.engine_contract.world import PATIENCE, World, refused, soon, until


async def check_engine_goes_away(engine: Engine, world: World) -> None:
    """All that is under way, and all that is asked, ends with EngineUnavailable; after `connect` all is as before."""
    container_id = await engine.create(world.name("survivor"), world.spec())
    await engine.start(container_id)
    async with engine.events() as events:
        wait = asyncio.create_task(engine.wait(container_id))
        event = asyncio.create_task(_next(events))
        done, _ = await asyncio.wait([wait, event], timeout=0.1)
        assert not done
        await world.go_down()
        await _assert_unavailable("a wait under way", wait)
        await _assert_unavailable("an open event stream", event)
    for what, call in (
        ("connect", engine.connect()),
        ("inspect", engine.inspect(container_id)),
        ("list", engine.list_containers()),
        ("images", engine.list_images()),
        ("start", engine.start(container_id)),
        ("remove", engine.remove(container_id)),
        ("wait", engine.wait(container_id)),
        ("events", engine.events().__aenter__()),
        ("pull", engine.pull(world.image, None).__aenter__()),
        ("exec", engine.exec(container_id, ["true"], OUTPUT)),
        ("attach", engine.attach(container_id, OUTPUT, ends_stdin=False)),
    ):
        await _assert_unavailable(what, call)
    await world.come_back()
    await engine.connect()
    assert (await engine.inspect(container_id)).name == world.name("survivor")
    async with engine.events() as events:
        await engine.remove(container_id)
        async with asyncio.timeout(PATIENCE):
            assert (await anext(events)).id == container_id


async def check_cancelled_calls_leave_nothing_open(engine: Engine, world: World) -> None:
    """Calls that were cancelled while they waited hold nothing of the engine, and others go on as before."""
    async with world.container(engine, "long") as container_id:
        await engine.inspect(container_id)
        before = world.open_calls()

        async def listen() -> None:
            async with engine.events() as events:
                async for _ in events:
                    pass

        tasks = [asyncio.create_task(engine.wait(container_id)) for _ in range(20)]
        tasks += [asyncio.create_task(listen()) for _ in range(20)]
        done, _ = await asyncio.wait(tasks, timeout=0.3)
        assert not done
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=PATIENCE)
        assert all(task.cancelled() for task in tasks)

        async def as_before() -> bool:
            return world.open_calls() <= before

        await until(as_before, f"open calls back to {before}")
        assert (await engine.inspect(container_id)).phase is ContainerPhase.RUNNING


async def check_cancel_at_any_moment(engine: Engine, world: World) -> None:
    """A create that is cancelled has made its container or not; in neither case is anything in the way afterwards."""
    for step in range(12):
        name = world.name(f"torn-{step}")
        task = asyncio.create_task(engine.create(name, world.spec()))
        for _ in range(step):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE)
        # The engine may be at it still: the name is free, or taken by a whole container.
        container_id = await engine.create(world.name(f"other-{step}"), world.spec())
        await engine.remove(container_id)
        try:
            await engine.remove((await engine.inspect(name)).id)
        except EngineNotFound:
            continue
    async with asyncio.timeout(PATIENCE):
        while await engine.list_containers(world.labels):  # also what it finishes meanwhile
            await world.clean(engine)


async def check_close_ends_all(engine: Engine, world: World) -> None:
    """Calls under way and later ones end with EngineUnavailable; closing twice is no error."""
    container_id = await engine.create(world.name("closing"), world.spec())
    await engine.start(container_id)
    wait = asyncio.create_task(engine.wait(container_id))
    async with engine.events() as events:
        event = asyncio.create_task(_next(events))
        done, _ = await asyncio.wait([wait, event], timeout=0.1)
        assert not done
        await engine.close()
        await _assert_unavailable("a wait under way", wait)
        await _assert_unavailable("an open event stream", event)
    await _assert_unavailable("inspect", engine.inspect(container_id))
    await _assert_unavailable("events", engine.events().__aenter__())
    await engine.close()


async def _next(events: AsyncIterator[EngineEvent]) -> EngineEvent:
    return await anext(events)


async def _assert_unavailable(what: str, call: Awaitable[object]) -> None:
    await soon(refused(call, EngineUnavailable, f"{what} without an engine"), f"{what}: an end without an engine")
