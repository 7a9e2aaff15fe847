"""Every effect of every verb fails once; what is listed is true, owns all there is, and can be removed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crishim.checkpoint.errors import StoreUnavailable
from crishim.errors import CRIError, EngineError, EngineTimeout, EngineUnavailable, LogFailed, NetnsError, NetworkFailed
from crishim.testing.faults import Case, Faults, Outcome, sweep_failures
from tests.usecase.runtime.scenarios import SCENARIOS, Scenario
from tests.usecase.runtime.world import World

Errors = dict[str, type[CRIError]]
ANSWERS: Errors = {
    "engine": EngineError,
    "store": StoreUnavailable,
    "network": NetworkFailed,
    "namespaces": NetnsError,
    "logs": LogFailed,
}
"""The world says no."""
SILENCE: Errors = ANSWERS | {"engine": EngineUnavailable}
LATE: Errors = ANSWERS | {"engine": EngineTimeout}


def make_case(
    folder: Path, scenario: Scenario, errors: Errors
) -> Callable[[Faults], AbstractAsyncContextManager[Case]]:
    @asynccontextmanager
    async def case(faults: Faults) -> AsyncIterator[Case]:
        def wrap(name: str, target: Any) -> Any:
            return faults.wrap(target, name, refused=lambda effect: errors[name](f"{effect} by the test"))

        world = World(folder, wrap=wrap, carrier=scenario.carrier)
        await world.start()
        ids = await scenario.prepare(world)

        async def check(outcome: Outcome) -> None:
            assert outcome.error is None or isinstance(outcome.error, CRIError)
            await world.check_consistent()
            await world.check_removable()

        yield Case(run=scenario.bound(world, ids), check=check)
        await world.close()

    return case


@pytest.mark.parametrize("errors", [ANSWERS, SILENCE, LATE], ids=["refused", "unavailable", "timeout"])
@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_effect_fails(tmp_path: Path, name: str, errors: Errors) -> None:
    assert await sweep_failures(make_case(tmp_path, SCENARIOS[name], errors), limit=1000) >= 1
