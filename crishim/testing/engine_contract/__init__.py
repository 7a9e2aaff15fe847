"""What every `crishim.engine.api.Engine` must do, as plain async functions `check_…(engine, world)`.

Run each of `CHECKS` on a connected engine and a fresh `World`, and `await world.clean(engine)` afterwards. A check that
fails raises AssertionError. The engine that ships without Docker and the Docker adapter run the same ones.

    @pytest.mark.parametrize("check", engine_contract.CHECKS, ids=lambda check: check.__name__)
    async def test_engine(check, engine, world):
        await check(engine, world)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from crishim.engine.api import Engine
from crishim.testing.engine_contract import (
    attaches,
    containers,
    events,
    execs,
    failures,
    files,
    images,
    lifecycle,
    logs,
)
from crishim.testing.engine_contract.world import World

Check = Callable[[Engine, World], Awaitable[None]]
"""A check of the contract."""

CHECKS: tuple[Check, ...] = tuple(
    check
    for module in (containers, files, lifecycle, execs, attaches, logs, events, images, failures)
    for name, check in vars(module).items()
    if name.startswith("check_")
)
"""All checks, in reading order."""

__all__ = ["CHECKS", "Check", "World"]
