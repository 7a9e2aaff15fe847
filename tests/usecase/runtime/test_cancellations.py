"""Every await of every verb is cancelled once; what is listed is true, owns all there is, and can be removed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from crishim.testing.faults import Case, Outcome, sweep_cancellations
from tests.usecase.runtime.scenarios import SCENARIOS
from tests.usecase.runtime.world import World


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_await_is_cancelled(tmp_path: Path, name: str) -> None:
    scenario = SCENARIOS[name]

    @asynccontextmanager
    async def case() -> AsyncIterator[Case]:
        world = World(tmp_path, carrier=scenario.carrier)
        await world.start()
        ids = await scenario.prepare(world)

        async def check(outcome: Outcome) -> None:
            await world.check_consistent()
            assert world.engine.attached == 0
            await world.check_removable()

        yield Case(run=scenario.bound(world, ids), check=check)
        await world.close()

    assert await sweep_cancellations(case, limit=1000) >= 1
