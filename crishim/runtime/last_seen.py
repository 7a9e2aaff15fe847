"""What was learned from the engine when it was last there, kept in the store for a start without it."""

from __future__ import annotations

from dataclasses import dataclass

from crishim.checkpoint.api import CheckpointStore
from crishim.engine.values import EngineFacts

_VERSION, _CGROUP_DRIVER = "engine.version", "engine.cgroup_driver"


@dataclass(frozen=True, slots=True)
class LastSeen:
    """Empty texts where nothing was ever seen."""

    version: str = ""
    cgroup_driver: str = ""


async def read_last_seen(store: CheckpointStore) -> LastSeen:
    """From the store."""
    return LastSeen(await store.get_value(_VERSION) or "", await store.get_value(_CGROUP_DRIVER) or "")


async def note_last_seen(store: CheckpointStore, facts: EngineFacts) -> None:
    """Into the store."""
    await store.put_value(_VERSION, facts.version)
    await store.put_value(_CGROUP_DRIVER, facts.cgroup_driver)
