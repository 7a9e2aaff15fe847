"""The simulated engine's way to tell what a container has printed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager

from crishim.engine.simulated.container import SimulatedContainer
from crishim.engine.simulated.gate import Gate
from crishim.engine.simulated.machine import Machine
from crishim.engine.values import LogEntry


@asynccontextmanager
async def read_log(
    gate: Gate, machine: Machine, container_id: str, since: int, *, tty: bool
) -> AsyncGenerator[AsyncIterator[Sequence[LogEntry]], None]:
    """See `crishim.engine.api.Engine.read_log`."""
    await gate.answer(
        "read_log", lambda: machine.log(machine.find(container_id)), container_id, since, kwargs={"tty": tty}
    )
    stream = _read_on(gate, machine, machine.find(container_id), since)
    try:
        yield stream
    finally:
        await stream.aclose()


async def _read_on(
    gate: Gate, machine: Machine, container: SimulatedContainer, since: int
) -> AsyncGenerator[Sequence[LogEntry], None]:
    done = 0
    while True:
        gate.check()
        ended, found = not container.running, machine.log(container)[done:]
        done += len(found)
        if wanted := [entry for entry in found if entry.time >= since]:
            yield wanted
        elif ended:
            return
        else:
            reader: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            container.readers.add(reader)
            try:
                await gate.hold(reader)
            finally:
                container.readers.discard(reader)
