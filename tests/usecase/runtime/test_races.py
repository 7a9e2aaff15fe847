"""Verbs that meet a pod's end, or a comparison with the engine, in any turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from crishim.checkpoint.record import Carrier
from crishim.engine.simulated import Drop, Slow
from crishim.engine.values import ContainerPhase
from crishim.errors import CRIError, EngineTimeout, SandboxNotReady
from tests.usecase.runtime.world import World

EACH_CARRIER = True


async def both(*tasks: asyncio.Task[object]) -> list[BaseException | object]:
    return await asyncio.gather(*tasks, return_exceptions=True)


def turns_apart(limit: int = 60) -> range:
    return range(0, limit, 3)


@pytest.mark.parametrize("other", ["stop", "remove"])
async def test_create_racing_with_the_pods_end(tmp_path: Path, other: str) -> None:
    outcomes = set()
    for turns in turns_apart():
        world = World(tmp_path / str(turns))
        await world.start()
        sandbox = await world.run()
        create = world.background(world.create(sandbox))
        for _ in range(turns):
            await asyncio.sleep(0)
        await (world.stop(sandbox) if other == "stop" else world.remove(sandbox))
        (result,) = await both(create)
        outcomes.add(type(result))
        assert isinstance(result, str | CRIError), result
        if isinstance(result, CRIError):
            assert [c for c in world.engine.containers if c.id != sandbox] == []
        await world.check_consistent()
        await world.check_removable()
        await world.close()
    assert {str, SandboxNotReady} <= outcomes


async def _race(folder: Path, world_done: Callable[[World, str, str], None], turns: int, slow: str) -> object:
    world = World(folder)
    await world.start()
    sandbox = await world.run()
    container = await world.create(sandbox)
    if slow:
        world.engine.script("start", Slow(1))
    start = world.background(world.start_container(container))
    for _ in range(turns):
        await asyncio.sleep(0)
    await world.stop(sandbox)
    (result,) = await both(start)
    await world.quiet()
    world_done(world, sandbox, container)
    await world.check_consistent()
    await world.check_removable()
    await world.close()
    return result


@pytest.mark.parametrize("slow", ["", "slow"])
async def test_start_racing_with_the_pods_stop_leaves_nothing_running(tmp_path: Path, slow: str) -> None:
    def check(world: World, sandbox: str, container: str) -> None:
        assert [c.id for c in world.objects.values() if c.phase is ContainerPhase.RUNNING] == []
        assert "RUNNING" not in world.states().values()

    outcomes = set()
    for turns in turns_apart():
        result = await _race(tmp_path / str(turns), check, turns, slow)
        outcomes.add(type(result))
        assert result is None or isinstance(result, SandboxNotReady), result
    assert SandboxNotReady in outcomes


async def test_a_start_whose_answer_is_lost_while_the_pod_is_stopped_leaves_nothing_running(world: World) -> None:
    sandbox = await world.run()
    container = await world.create(sandbox)
    world.engine.script("start", Slow(1))
    world.engine.script("start", Drop())
    start = world.background(world.start_container(container))
    await asyncio.sleep(0.5)
    await world.stop(sandbox)
    await both(start)
    assert [c.id for c in world.objects.values() if c.phase is ContainerPhase.RUNNING] == []


async def test_removing_while_everything_is_read_adopts_no_ghost(tmp_path: Path) -> None:
    """A comparison that saw a container before its removal does not bring it back."""
    for turns in turns_apart(90):
        world = World(tmp_path / str(turns))
        await world.start()
        sandbox = await world.run()
        container = await world.run_container(sandbox)
        world.engine.script("inspect", Slow(1), times=1, match=lambda i, wanted=sandbox: i == wanted)
        reading = world.background(world.node.compare())
        for _ in range(turns):
            await asyncio.sleep(0)
        await world.remove_container(container)
        if turns % 2:
            await world.remove(sandbox)
        await reading
        assert world.state(container) == "gone"
        await world.check_removable()
        await world.close()


async def test_removing_an_anchored_pod_while_everything_is_read_adopts_no_ghost(tmp_path: Path) -> None:
    """Its object has another id than the pod that was dropped."""
    world = World(tmp_path, carrier=Carrier.ANCHORED)
    await world.start()
    sandbox, other = await world.run(), await world.run(name="other")
    slow = world.engine.script("inspect", Slow(1), times=1, match=lambda i, wanted=world.objects[other].id: i == wanted)
    reading = world.background(world.node.compare())
    await world.until(lambda: slow.hits == 1, 1)
    await world.remove(sandbox)
    await reading
    assert world.states() == {other: "READY"}
    await world.check_removable()
    await world.close()


async def test_what_a_call_undoes_while_everything_is_read_is_no_ghost(world: World) -> None:
    """A comparison sees a sandbox whose create then turns out to have failed, and which is removed."""
    other = await world.run(name="other")
    name = "k8s_POD_web_default_uid-web_0"
    world.engine.script("create", Drop(EngineTimeout("late")))
    world.engine.script("inspect", Slow(1), match=lambda i: i == name)
    world.engine.script("inspect", Slow(2), match=lambda i: i == other)
    run = world.background(world.run())
    await world.until(lambda: len(world.engine.containers) == 2, 1)
    await world.node.compare()
    (result,) = await both(run)
    assert isinstance(result, EngineTimeout)
    assert world.states() == {other: "READY"}


async def test_creating_while_everything_is_read_forgets_nothing(tmp_path: Path) -> None:
    for turns in turns_apart(90):
        world = World(tmp_path / str(turns))
        await world.start()
        sandbox = await world.run()
        creating = world.background(world.create(sandbox, envs=()))
        for _ in range(turns):
            await asyncio.sleep(0)
        await world.node.compare()
        container = await creating
        assert container in world.rt.index.need_sandbox(sandbox).record.containers
        assert not world.rt.index.need_container(container).found
        await world.check_consistent()
        await world.check_removable()
        await world.close()
