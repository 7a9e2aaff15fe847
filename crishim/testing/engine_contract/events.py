"""Checks of the event stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from crishim.engine.api import Engine
from crishim.engine.values import EngineEvent
from crishim.testing.engine_contract.archive import tiny_archive
from crishim.testing.engine_contract.world import PATIENCE, World, soon

_LIFE = ("create", "start", "die", "destroy")


async def check_a_containers_life_is_told(engine: Engine, world: World) -> None:
    """Create, start, die, destroy: each once, in order, with labels, name, exit code and rising times."""
    async with engine.events() as events:
        # No pause after entering: what happens from now on must be seen.
        container_id = await engine.create(world.name("told"), world.spec("sh", "-c", "exit 4"))
        await engine.start(container_id)
        await soon(engine.wait(container_id), "end of a container that exits at once")
        await engine.remove(container_id)
        seen = await _until(events, container_id, "destroy")
    assert [event.action for event in seen if event.action in _LIFE] == list(_LIFE)
    assert all(event.kind == "container" for event in seen)
    assert sorted(event.time for event in seen) == [event.time for event in seen]
    assert seen[0].time > 0
    for event in seen:
        assert event.attributes.items() >= world.labels.items()
        assert event.attributes["name"] == world.name("told")
    assert next(event for event in seen if event.action == "die").attributes["exitCode"] == "4"


async def check_each_listener_sees_all(engine: Engine, world: World) -> None:
    """A second stream takes nothing from the first; one that is left holds up nobody."""
    async with engine.events() as first:
        async with engine.events() as second:
            one = await engine.create(world.name("one"), world.spec())
            assert (await _until(second, one, "create"))[-1].id == one
        await engine.remove(one)
        assert (await _until(first, one, "destroy"))[0].action == "create"


async def check_stream_begins_when_entered(engine: Engine, world: World) -> None:
    """What was before is not told again."""
    before = await engine.create(world.name("before"), world.spec())
    async with engine.events() as events:
        after = await engine.create(world.name("after"), world.spec())
        await _until(events, after, "create", forbidden=before)
    await engine.remove(before)
    await engine.remove(after)


async def check_image_events(engine: Engine, world: World) -> None:
    """Something is told of an image when it comes and when it goes."""
    name = world.image_name("news")
    async with engine.events() as events:
        await engine.load_image(tiny_archive(name))
        await _next_image_event(events)
        await engine.remove_image(name)
        await _next_image_event(events)


async def _until(
    events: AsyncIterator[EngineEvent], container_id: str, action: str, forbidden: str = ""
) -> list[EngineEvent]:
    """A container's events up to this one."""
    seen: list[EngineEvent] = []
    try:
        async with asyncio.timeout(PATIENCE):
            async for event in events:
                assert not forbidden or event.id != forbidden, event
                if event.id == container_id:
                    seen.append(event)
                    if event.action == action:
                        break
    except TimeoutError:
        raise AssertionError(f"no {action} was told, but {[event.action for event in seen]}") from None
    return seen


async def _next_image_event(events: AsyncIterator[EngineEvent]) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            async for event in events:
                if event.kind == "image":
                    return
    except TimeoutError:
        raise AssertionError("no image event was told") from None
