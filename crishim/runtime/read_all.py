"""Many inspects at once, and what to make of those that were not answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from crishim.engine.api import Engine
from crishim.engine.values import EngineContainer
from crishim.errors import CRIError, EngineNotFound, EngineTimeout, EngineUnavailable
from crishim.runtime.watch import Watch

log = logging.getLogger(__name__)

_AT_ONCE = 8
"""Inspects under way together."""


@dataclass
class Read:
    """The answers; every id that was asked is in one of the three."""

    found: list[EngineContainer] = field(default_factory=list)
    """The oldest first."""
    missing: set[str] = field(default_factory=set)
    """The engine has no such container."""
    unanswered: set[str] = field(default_factory=set)


async def inspect_all(engine: Engine, watch: Watch, ids: Iterable[str]) -> Read:
    """Inspect these containers and put what is known already into the index.

    One that the engine cannot tell of does not hold up the rest. Raises EngineUnavailable; EngineTimeout when the
    engine answers nothing at all.
    """
    slots = asyncio.Semaphore(_AT_ONCE)
    read = Read()
    in_a_row = 0

    async def look(container_id: str) -> None:
        nonlocal in_a_row
        async with slots:
            stamp = watch.stamp()
            try:
                live = await engine.inspect(container_id)
            except EngineNotFound:
                read.missing.add(container_id)
            except EngineUnavailable:
                raise
            except CRIError as error:
                log.warning("container %s cannot be inspected: %s", container_id[:13], error)
                read.unanswered.add(container_id)
                in_a_row += 1
                if isinstance(error, EngineTimeout) and in_a_row > _AT_ONCE:
                    raise
                return
            else:
                read.found.append(live)
                if watch.counts(container_id, stamp):
                    await watch.apply(live)
                else:
                    watch.mark(container_id)
            in_a_row = 0

    try:
        async with asyncio.TaskGroup() as group:
            for container_id in ids:
                group.create_task(look(container_id), name=f"inspect {container_id[:13]}")
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    read.found.sort(key=lambda live: live.created_at)
    return read
