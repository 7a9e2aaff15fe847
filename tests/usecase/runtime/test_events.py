"""Whatever the event stream loses, no state is stale beyond a comparison, and none moves backwards."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from crishim.engine.simulated import Slow
from crishim.engine.values import EngineContainer
from crishim.runtime.engine_link import COMPARE_EVERY
from crishim.runtime.index import Change
from crishim.runtime.objects import Container, Sandbox
from tests.usecase.runtime.world import World


@pytest.mark.parametrize("seed", range(5))
async def test_churn_with_lost_events(world: World, seed: int, scaled: Callable[[int], int]) -> None:
    chance = random.Random(seed)
    backwards: list[tuple[str, str]] = []

    def watch(change: Change) -> None:
        before, after = change.before, change.after
        if not (isinstance(before, Container) and isinstance(after, Container)):
            return
        # Only another start may bring a container back.
        if after.state < before.state and after.live.started_at <= before.live.started_at:
            backwards.append((before.state.name, after.state.name))

    unsubscribe = world.rt.index.subscribe(watch)
    sandbox = await world.run()
    containers = [await world.run_container(sandbox, name=f"c{number}") for number in range(10)]
    for _ in range(scaled(100)):
        world.engine.drop_events(chance.choice((0, 0, 1, 2, 5)))
        container = chance.choice(containers)
        live = world.in_engine(container)
        match chance.choice(("finish", "restart", "vanish", "slow", "compare")):
            case "finish" if live is not None and live.pid:
                world.engine.finish(container, chance.choice((0, 1, 137)))
            case "restart" if live is not None:
                world.engine.restart_container(container)
            case "vanish" if chance.random() < 0.2 and live is not None:
                world.engine.vanish(container)
            case "slow":
                world.engine.script("inspect", Slow(chance.random() * 3))
            case _:
                world.background(world.node.compare())
        if chance.random() < 0.3:
            await world.quiet()
    world.engine.drop_events(0)
    changed = world.engine.clock.now_ns()
    await world.until(lambda: _is_true(world), COMPARE_EVERY + 5)
    assert world.engine.clock.now_ns() - changed <= (COMPARE_EVERY + 5) * 1e9
    assert backwards == []
    world.engine._machine.hub.to_drop = 0
    unsubscribe()


def _is_true(world: World) -> bool:
    index = world.rt.index
    objects: list[Sandbox | Container] = [*index.sandboxes(), *index.containers()]
    told = {o.id: (o.live.phase, o.live.started_at) for o in objects if o.live is not None}
    return told == {c.id: (c.phase, c.started_at) for c in world.engine.containers}


async def test_an_answer_that_was_asked_before_a_write_of_ours_is_dropped(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    inspect = world.engine.inspect
    late = asyncio.Event()

    async def old_answer(id_or_name: str) -> EngineContainer:
        world.engine.inspect = inspect  # type: ignore[method-assign]
        answer = await inspect(id_or_name)
        await asyncio.sleep(5)
        late.set()
        return answer

    world.engine.inspect = old_answer  # type: ignore[method-assign]
    world.rt.watch.mark(container)
    await world.quiet()
    await world.update_container(container, memory_limit_in_bytes=1 << 20)
    seen: list[int | None] = []
    world.rt.index.subscribe(
        lambda change: seen.append(change.after.live.resources.memory) if isinstance(change.after, Container) else None
    )
    await late.wait()
    await world.quiet()
    assert world.rt.index.need_container(container).live.resources.memory == 1 << 20
    assert set(seen) <= {1 << 20}


async def test_a_container_made_by_others_is_found(world: World) -> None:
    """One that carries the convention's labels, as another shim on the same engine makes them."""
    sandbox = await world.run()
    container = await world.create(sandbox)
    spec = world.engine._machine.containers[container].spec
    other = await world.engine.create("k8s_x_web_default_uid-web_0", spec)
    await world.until(lambda: world.state(other) == "CREATED", COMPARE_EVERY + 1)
