"""The server is killed (-9) at every effect of every verb, before or right after it took place, and started again."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any, Literal

import pytest

from crishim.checkpoint.record import Carrier, Phase
from crishim.errors import NameReserved
from tests.usecase.runtime.scenarios import SCENARIOS
from tests.usecase.runtime.world import World

When = Literal["before", "after"]


class Freezer:
    """Lets the chosen effect of the server, and so what waits for it, stand still."""

    def __init__(self, point: int, when: When) -> None:
        self.frozen = asyncio.Event()
        self.armed = False
        self._point = point
        self._when = when
        self._count = 0

    def wrap(self, target: Any) -> Any:
        return _Freezing(self, target)

    def number(self) -> int:
        """The number of an effect that begins now; 0 where none counts."""
        self._count += self.armed
        return self._count if self.armed else 0

    async def pass_by(self, number: int, when: When) -> None:
        if self.armed and (number, when) == (self._point, self._when):
            self.frozen.set()
            await asyncio.Event().wait()


class _Freezing:
    def __init__(self, freezer: Freezer, target: Any) -> None:
        self._freezer = freezer
        self._target = target

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, name)
        if not inspect.iscoroutinefunction(attribute):
            return attribute

        async def call(*args: Any, **kwargs: Any) -> Any:
            number = self._freezer.number()
            await self._freezer.pass_by(number, "before")
            try:
                return await attribute(*args, **kwargs)
            finally:
                # A refusal is an answer, too.
                await self._freezer.pass_by(number, "after")

        return call


def make_world(folder: Path, freezer: Freezer, carrier: Carrier) -> World:
    """A world whose server stands still at the freezer's point."""
    return World(folder, wrap=lambda _, target: freezer.wrap(target), carrier=carrier)


async def killed_in(world: World, freezer: Freezer, name: str) -> tuple[bool, str, dict[str, str]]:
    """Carry a scenario to the freezer's point and kill the server there.

    Returns whether it came so far, the sandbox's id, and the states that the server told of last.
    """
    await world.start()
    ids = await SCENARIOS[name].prepare(world)
    freezer.armed = True
    task = asyncio.ensure_future(SCENARIOS[name].bound(world, ids)())
    frozen = asyncio.ensure_future(freezer.frozen.wait())
    await asyncio.wait((task, frozen), return_when=asyncio.FIRST_COMPLETED)
    hit = freezer.frozen.is_set()
    frozen.cancel()
    freezer.armed = False
    states = world.states()
    await world.server.kill()
    return hit, ids[0], states


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", SCENARIOS)
async def test_killed_at_every_effect(tmp_path: Path, name: str, when: When) -> None:
    for point in range(1, 100):
        freezer = Freezer(point, when)
        world = make_world(tmp_path / str(point), freezer, SCENARIOS[name].carrier)
        hit, _, told = await killed_in(world, freezer, name)
        try:
            await world.start()
            await world.check_consistent()
            if name.startswith("run"):
                # What anybody has seen READY is READY after the crash, too.
                assert all(world.state(i) == state for i, state in told.items() if state == "READY")
                await retry_run(world)
            await world.check_removable()
            await world.close()
        except BaseException as error:
            error.add_note(f"killed {when} effect {point}")
            raise
        if not hit:
            assert point > 1, "the scenario has no effect"
            return
    pytest.fail("no end")


async def retry_run(world: World) -> None:
    """The repeated RunPodSandbox succeeds although the name is taken, unless the first had come to its end."""
    listed = list(world.rt.index.sandboxes())
    if [sandbox.record.phase for sandbox in listed] == [Phase.READY]:
        with pytest.raises(NameReserved):
            await world.run()
        assert world.state(listed[0].id) == "READY"
        return
    sandbox = await world.run()
    assert world.states() == {sandbox: "READY"}
    await world.check_consistent()


@pytest.mark.parametrize("name", ["create", "create, anchored"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_create_repeated_after_a_kill_succeeds(tmp_path: Path, when: When, name: str) -> None:
    carrier = SCENARIOS[name].carrier
    for point in range(1, 100):
        freezer = Freezer(point, when)
        world = make_world(tmp_path / str(point), freezer, carrier)
        hit, sandbox, _ = await killed_in(world, freezer, name)
        await world.start()
        container = await world.create(sandbox)
        await world.start_container(container)
        assert world.states() == {sandbox: "READY", container: "RUNNING"}
        await world.check_removable()
        await world.close()
        if not hit:
            return
    pytest.fail("no end")
