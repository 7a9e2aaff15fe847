"""Between two outages a comparison asks for little, and yet whatever the event stream loses is found."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crishim.checkpoint.record import Carrier
from crishim.engine.values import ContainerPhase, EngineResources
from crishim.runtime.engine_link import COMPARE_EVERY
from crishim.runtime.unchanged import LEAST, ROUND
from tests.usecase.runtime.world import SHARING, World

PODS = 20
LOST = 1000
"""More events than a test makes."""


async def populate(world: World) -> tuple[list[str], list[str]]:
    """More objects than are asked for in one comparison: sandboxes, and a container in each, of which half run."""
    sandboxes = [await world.run(name=f"pod-{number}") for number in range(PODS)]
    containers = [await world.create(sandbox) for sandbox in sandboxes]
    for container in containers[: PODS // 2]:
        await world.start_container(container)
    await world.quiet()
    return sandboxes, containers


async def compared(world: World) -> int:
    """Let the next comparison go by; how many objects were asked for."""
    asked = world.engine.calls["inspect"]
    async with asyncio.timeout(COMPARE_EVERY + 1):
        await world.engine.called("survey", world.engine.calls["survey"] + 1)
    await world.quiet()
    return world.engine.calls["inspect"] - asked


@pytest.mark.parametrize("carrier", Carrier)
async def test_what_rests_is_asked_for_in_turn(tmp_path: Path, carrier: Carrier) -> None:
    world = World(tmp_path, carrier=carrier)
    await world.start()
    sandboxes, containers = await populate(world)
    anchor = carrier is Carrier.ANCHORED  # it is looked at each time
    assert [await compared(world) for _ in range(5)] == [LEAST + anchor] * 5
    states = world.states()
    assert {states[s] for s in sandboxes} == {"READY"}
    assert {states[c] for c in containers} == {"CREATED", "RUNNING"}
    await world.check_consistent()
    await world.check_removable()
    await world.close()


async def test_each_has_its_turn(world: World) -> None:
    _, containers = await populate(world)
    world.engine.drop_events(LOST)
    for number, container in enumerate(containers):
        await world.engine.update(container, EngineResources(cpu_shares=100 + number))
    for _ in range(ROUND):
        assert await compared(world) == LEAST
    told = [world.rt.index.need_container(c).live.resources.cpu_shares for c in containers]
    assert told == [100 + number for number in range(PODS)]


async def test_what_shows_is_found_at_once_whoever_has_the_turn(world: World) -> None:
    sandboxes, containers = await populate(world)
    for _ in range(3):
        await compared(world)
    world.engine.drop_events(LOST)
    started = {c: world.rt.index.need_container(c).live.started_at for c in containers}
    world.engine.restart_container(sandboxes[0])
    for container in containers[:3]:
        world.engine.restart_container(container)
    for container in containers[3:6]:
        world.engine.finish(container, 3)
    for container in containers[6:9]:
        world.engine.vanish(container)
    await world.engine.start(containers[-1])
    await compared(world)
    assert world.state(sandboxes[0]) == "NOTREADY"
    for container in containers[:3]:
        assert world.rt.index.need_container(container).live.started_at > started[container]
    assert [world.state(c) for c in containers[3:9]] == ["EXITED"] * 3 + ["gone"] * 3
    assert world.state(containers[-1]) == "RUNNING"
    await world.check_consistent()


async def test_after_an_outage_everything_is_asked_for(world: World) -> None:
    _, containers = await populate(world)
    asked, connections = world.engine.calls["inspect"], world.rt.link.connections
    world.engine.go_down()
    world.engine.come_back()
    await world.until(lambda: world.rt.link.connections > connections, 10)
    assert world.engine.calls["inspect"] - asked == 2 * PODS
    assert world.state(containers[0]) == "RUNNING"


async def test_what_cannot_be_told_from_the_list_is_asked_for_each_time(world: World) -> None:
    """As where a container's process is not to be seen."""
    await world.restart(lives=lambda container_id, pid: False)
    await populate(world)
    rest = PODS // 2  # created, and asked for in turn
    assert [await compared(world) >= 2 * PODS - rest for _ in range(3)] == [True] * 3


async def test_pods_processes_that_ended_unheard_come_again(tmp_path: Path) -> None:
    world = World(tmp_path, carrier=Carrier.ANCHORED)
    world.linux = SHARING
    await world.start()
    sandboxes, _ = await populate(world)
    await compared(world)
    world.engine.drop_events(LOST)
    for sandbox in sandboxes:  # more than have their turn
        await world.engine.kill(world.objects[sandbox].id, "SIGKILL")
    await compared(world)
    assert {world.objects[sandbox].phase for sandbox in sandboxes} == {ContainerPhase.RUNNING}
    await world.check_removable()
    await world.close()
