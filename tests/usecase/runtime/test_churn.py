"""Everything at once, at random: many callers, cancellations, failures, outages, kills; then nothing is left."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from crishim.checkpoint.record import Carrier
from crishim.engine.simulated import Drop, Fail, Slow
from crishim.errors import CRIError, EngineError, EngineTimeout, NetworkFailed
from tests.usecase.runtime.world import Killed, World

CALLS = ("create", "start", "kill", "remove", "inspect", "update", "list_containers", "survey")


class Churn:
    """Callers that do what comes to their mind, in a world that does the same."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.tasks: list[asyncio.Task[None]] = []

    async def turn(self) -> None:
        """One call, and perhaps something else that happens; then a little time passes."""
        self.tasks = [task for task in self.tasks if not task.done()]
        self.tasks.append(self.world.background(self._call()))
        event = self.chance.random()
        if event < 0.08:
            self.chance.choice(self.tasks).cancel()
        elif event < 0.16:
            self._fault()
        elif event < 0.19:
            self._behind_our_back()
        elif event < 0.20:
            self.world.engine.go_down(containers_die=self.chance.random() < 0.3)
            await asyncio.sleep(self.chance.random() * 3)
            self.world.engine.come_back()
        elif event < 0.21:
            await self.world.restart(kill=True, connected=False)
        await asyncio.sleep(self.chance.choice((0, 0, 0.01, 0.5)))

    async def _call(self) -> None:
        world, pick = self.world, self.chance
        if not hasattr(world.node, "runtime"):
            return  # a server that is just starting
        index = world.rt.index
        sandboxes = [s.id for s in index.sandboxes()] or ["none"]
        containers = [c.id for c in index.containers()] or ["none"]
        ready = [s.id for s in index.sandboxes() if s.ready] or sandboxes
        created = [c.id for c in index.containers() if not c.started_at] or containers
        match pick.choice(
            ("run", "run", "create", "create", "start", "start", "stop", "remove", "stop c", "remove c", "up")
        ):
            case "run":
                await world.run(name=f"p{pick.randrange(7)}", attempt=pick.randrange(3))
            case "create":
                command = pick.choice((("serve",), ("serve", "ignore-term"), ("true",), ("/missing",)))
                await world.create(pick.choice(ready), name=f"c{pick.randrange(5)}", command=command)
            case "start":
                await world.start_container(pick.choice(created))
            case "stop":
                await world.stop(pick.choice(sandboxes))
            case "remove":
                await world.remove(pick.choice(sandboxes))
            case "stop c":
                await world.stop_container(pick.choice(containers), pick.choice((0, 1, 30)))
            case "remove c":
                await world.remove_container(pick.choice(containers))
            case _:
                await world.update_container(pick.choice(containers), cpu_shares=pick.randrange(2, 2000))

    def _fault(self) -> None:
        error = self.chance.choice((EngineError("by the test"), EngineTimeout("by the test")))
        fault = self.chance.choice((Fail(error), Drop(), Drop(error), Slow(self.chance.random() * 3)))
        self.world.engine.script(self.chance.choice(CALLS), fault)
        self.world.engine.drop_events(self.chance.choice((0, 0, 3)))
        if self.chance.random() < 0.3:
            network = self.chance.choice(
                (Fail(NetworkFailed("by the test")), Slow(2), Drop(NetworkFailed("by the test")))
            )
            self.world.network.script(self.chance.choice(("attach", "detach")), network)

    def _behind_our_back(self) -> None:
        if (found := self.world.engine.containers) != ():
            do = self.chance.choice((self.world.engine.vanish, self.world.engine.restart_container))
            try:
                do(self.chance.choice(found).id)
            except EngineError:
                return  # such as one whose sandbox does not run: the engine refuses that

    async def end(self) -> None:
        """Let everything come to its end, and the world be good again."""
        for task in self.tasks:
            try:
                await task
            except (CRIError, Killed, asyncio.CancelledError):
                continue
        self.world.engine._machine.hub.to_drop = 0
        self.world.engine._gate.script = type(self.world.engine._gate.script)()
        self.world.network._gate.script = type(self.world.network._gate.script)()
        assert await self.world.rt.link.wait_connected(60)
        await self.world.rt.images.ensure_sandbox_image()


@pytest.mark.parametrize("seed", range(10))
async def test_churn(tmp_path: Path, seed: int, scaled: Callable[[int], int]) -> None:
    # Half of them with pods that are anchored.
    world = World(tmp_path, carrier=Carrier.ANCHORED if seed % 2 else Carrier.PAUSE)
    await world.start()
    churn = Churn(world, seed)
    for _ in range(scaled(500)):
        await churn.turn()
    await churn.end()
    await world.check_consistent()
    await world.check_removable()
    await world.close()


async def test_pods_that_come_and_go_leave_no_memory(world: World, scaled: Callable[[int], int]) -> None:
    async def cycle() -> None:
        sandbox = await world.run()
        container = await world.run_container(sandbox)
        await world.stop_container(container)
        await world.remove(sandbox)

    for _ in range(10):
        await cycle()
    gc.collect()
    tasks, objects = len(asyncio.all_tasks()), _ours()
    for _ in range(scaled(2000)):
        await cycle()
    gc.collect()
    assert len(asyncio.all_tasks()) == tasks
    # Fewer than one in ten cycles: what other tests left is collected now and then.
    assert _ours() - objects < scaled(2000) // 10


def _ours() -> int:
    """How many objects of ours there are."""
    return sum(str(type(thing).__module__).startswith("crishim.runtime") for thing in gc.get_objects())
