"""What every `crishim.checkpoint.api.CheckpointStore` must do, as plain async functions `check_…(place)`.

Run each of `CHECKS`, and for a store that outlives its process each of `DURABLE_CHECKS`, with a `Place` in a fresh
folder. A check that fails raises AssertionError. The stores that come with crishim run the same ones.

    @pytest.mark.parametrize("check", CHECKS + DURABLE_CHECKS, ids=lambda check: check.__name__)
    async def test_store(check, tmp_path):
        await check(Place(factory="package.module:MyStore", state_dir=tmp_path))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from crishim.testing.checkpoint_contract import behaviour, damage, durability, kills
from crishim.testing.checkpoint_contract.place import Place

Check = Callable[[Place], Awaitable[None]]
"""A check of the contract."""


def _checks(*modules: object) -> tuple[Check, ...]:
    return tuple(check for module in modules for name, check in vars(module).items() if name.startswith("check_"))


CHECKS = _checks(behaviour)
"""Checks for every store, in reading order."""
DURABLE_CHECKS = _checks(durability, damage, kills)
"""Further checks for a store that outlives its process."""

__all__ = ["CHECKS", "DURABLE_CHECKS", "Check", "Place"]
