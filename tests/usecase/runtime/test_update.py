"""An update of limits is all or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crishim.checkpoint.errors import StoreUnavailable
from crishim.engine.values import EngineResources
from crishim.errors import ContainerNotFound, CRIError, EngineError, InvalidArgument
from crishim.model import LinuxContainerConfig, LinuxContainerResources
from crishim.runtime import container_start, container_update
from crishim.runtime.host import Host
from crishim.testing.faults import Case, Faults, Outcome, sweep_cancellations, sweep_failures
from tests.usecase.runtime.world import World

ASKED: dict[str, Any] = {"memory_limit_in_bytes": 64 << 20, "cpu_shares": 512}


LIMITED = LinuxContainerConfig(resources=LinuxContainerResources(memory_limit_in_bytes=32 << 20, cpu_shares=100))
"""Values to go back to: the kernel's own cannot be set again, only ones that mean the same."""


def in_force(world: World, container: str) -> EngineResources:
    live = world.in_engine(container)
    assert live is not None
    return live.resources


async def test_zero_leaves_what_is(world: World) -> None:
    container = await world.run_container(await world.run())
    await world.update_container(container, **ASKED)
    before = in_force(world, container)
    assert (before.memory, before.memory_swap, before.cpu_shares) == (64 << 20, 64 << 20, 512)
    await world.update_container(container, cpu_quota=1000, cpu_period=2000)
    assert in_force(world, container) == replace(before, cpu_quota=1000, cpu_period=2000)
    await world.update_container(container)
    shown = world.rt.index.need_container(container)
    assert shown.live.resources == in_force(world, container)
    await world.restart()
    assert world.rt.index.need_container(container).live.resources == shown.live.resources


async def test_what_was_asked_is_kept(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    await world.update_container(container, **ASKED)
    asked = LinuxContainerResources(**ASKED)
    assert world.rt.index.need_container(container).record.resources == asked
    assert world.rt.index.need_sandbox(sandbox).record.containers[container].resources == asked
    await world.check_consistent()


@pytest.mark.parametrize("field", ["cpu_shares", "cpu_quota", "memory_limit_in_bytes"])
async def test_the_impossible_is_refused_before_anything_is_done(world: World, field: str) -> None:
    container = await world.run_container(await world.run())
    calls = world.engine.calls["update"]
    with pytest.raises(InvalidArgument, match=f"linux.{field}"):
        await world.update_container(container, **{field: -7})
    assert world.engine.calls["update"] == calls


async def test_a_container_that_is_gone(world: World) -> None:
    container = await world.run_container(await world.run())
    world.engine.drop_events(10)
    world.engine.vanish(container)
    with pytest.raises(ContainerNotFound):
        await world.update_container(container, **ASKED)
    assert world.state(container) == "gone"


async def check_nothing_changed(world: World, container: str, before: EngineResources) -> None:
    await world.quiet()
    assert in_force(world, container) == before
    await world.check_consistent()
    shown = world.rt.index.need_container(container)
    assert (shown.live.resources, shown.record.resources) == (before, None)


@pytest.mark.parametrize("error", [StoreUnavailable, EngineError])
async def test_a_failure_puts_the_old_values_back(tmp_path: Path, error: type[CRIError]) -> None:
    """As far as the world lets us: each effect is refused once, and the next one is not."""
    kind = "store" if error is StoreUnavailable else "engine"

    @asynccontextmanager
    async def case(faults: Faults) -> AsyncIterator[Case]:
        world = World(
            tmp_path, wrap=lambda name, target: faults.wrap(target, name, refused=error) if name == kind else target
        )
        await world.start()
        container = await world.run_container(await world.run(), linux=LIMITED)
        before = in_force(world, container)

        async def check(outcome: Outcome) -> None:
            if outcome.error is not None:
                await check_nothing_changed(world, container, before)
            await world.check_removable()

        yield Case(run=lambda: world.update_container(container, **ASKED), check=check)
        await world.close()

    assert await sweep_failures(case, ways=("refused", "lost"), limit=1000) >= 1


async def test_a_cancellation_puts_the_old_values_back(tmp_path: Path) -> None:
    @asynccontextmanager
    async def case() -> AsyncIterator[Case]:
        world = World(tmp_path)
        await world.start()
        container = await world.run_container(await world.run(), linux=LIMITED)
        before = in_force(world, container)

        async def check(outcome: Outcome) -> None:
            if outcome.error is not None:
                assert isinstance(outcome.error, asyncio.CancelledError)
                await check_nothing_changed(world, container, before)
            await world.check_removable()

        yield Case(run=lambda: world.update_container(container, **ASKED), check=check)
        await world.close()

    assert await sweep_cancellations(case, limit=1000) >= 1


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """OOM score adjustments as they were set, by pid: the simulated engine's processes are not in /proc."""
    found: dict[int, int] = {}
    for module in (container_start, container_update):
        monkeypatch.setattr(module, "set_oom_score", found.__setitem__)
    return found


def pid_of(world: World, container: str) -> int:
    live = world.in_engine(container)
    assert live is not None
    return live.pid


async def test_an_oom_score_is_in_force_and_told(world: World, scores: dict[int, int]) -> None:
    """A container that was not started yet gets it at its start; an update of something else leaves it."""
    sandbox = await world.run()
    created = LinuxContainerConfig(resources=LinuxContainerResources(oom_score_adj=100))
    container = await world.create(sandbox, linux=created)
    await world.update_container(container, oom_score_adj=700)
    assert scores == {}
    await world.start_container(container)
    assert scores == {pid_of(world, container): 700}
    await world.update_container(container, oom_score_adj=300)
    assert scores == {pid_of(world, container): 300}
    await world.update_container(container, cpu_shares=512)
    assert world.rt.index.need_container(container).oom_score_adj == 300
    await world.restart()
    assert world.rt.index.need_container(container).oom_score_adj == 300
    await world.check_consistent()
    untouched = await world.run_container(sandbox, name="second", linux=created)
    assert pid_of(world, untouched) not in scores
    assert world.rt.index.need_container(untouched).oom_score_adj == 100


async def test_a_failed_update_puts_back_the_oom_score_of_the_update_before(
    world: World, scores: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    container = await world.run_container(await world.run())
    await world.update_container(container, oom_score_adj=300)

    async def full(*_: object) -> None:
        raise StoreUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "put", full)
        with pytest.raises(StoreUnavailable):
            await world.update_container(container, oom_score_adj=900)
    assert scores == {pid_of(world, container): 300}
    assert world.rt.index.need_container(container).oom_score_adj == 300
    await world.check_consistent()


async def test_an_oom_score_is_told_as_the_host_allows_it(
    world: World, scores: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.node, "_host", Host(oom_floor=-10))
    container = await world.run_container(await world.run())
    await world.update_container(container, oom_score_adj=-500)
    assert scores == {pid_of(world, container): -10}
    assert world.rt.index.need_container(container).oom_score_adj == -10


async def test_a_pods_update_fails_no_known_sandbox(world: World) -> None:
    sandbox = await world.run()
    await world.stop(sandbox)
    await world.update_pod(sandbox, cpu_shares=7)
    record = world.rt.index.need_sandbox(sandbox).record
    assert record.resources == LinuxContainerResources(cpu_shares=7)
    await world.update_pod(sandbox)
    assert world.rt.index.need_sandbox(sandbox).record.resources == LinuxContainerResources()
    await world.check_consistent()
