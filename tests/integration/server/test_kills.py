"""kill -9 of the server at random points of pods' lives: trap 19, and every promise kept by its next life."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from cni.testing import ScriptedPlugin
from tests.env.cni import CniDirs
from tests.env.engine import TestEngine
from tests.integration.server.churn import Churn, broken_promises
from tests.integration.server.pods import listed_states
from tests.integration.server.residue import (
    Quiet,
    assert_nothing_left,
    assert_store_empty,
    astray,
    remove_anchors,
    unreleased,
)
from tests.integration.server.serving import CrishimServer

pytestmark = [pytest.mark.engine, pytest.mark.soak]
WORKERS = 4

NewServer = Callable[..., CrishimServer]


async def test_with_the_embedded_network(
    new_server: NewServer, engine: TestEngine, scaled: Callable[[int], int]
) -> None:
    """With records in files and pods of both carriers. No address, port of the bridge, or rule is left."""
    server = new_server(flags=["--checkpoint=file"], embedded=True, fronted=True)
    server.start()
    try:
        await churn_and_kill(server, engine, scaled(50), mixed=True)
    finally:
        remove_anchors(engine.api)


async def test_with_a_network(
    new_server: NewServer,
    engine: TestEngine,
    scaled: Callable[[int], int],
    bridged: CniDirs,
    tally: ScriptedPlugin,
) -> None:
    """With records in SQLite. Every ADD has its DEL, though plugins outlive the server that ran them."""
    server = new_server(cni=bridged)
    server.start()
    await churn_and_kill(server, engine, scaled(50))
    assert unreleased(tally) == []


async def churn_and_kill(server: CrishimServer, engine: TestEngine, kills: int, *, mixed: bool = False) -> None:
    """Workers churn while the server is killed so many times; then all that is listed is removed."""
    quiet = Quiet.of(server)
    churn = Churn(server, "kill", mixed=mixed)
    print(f"seed {churn.seed}")
    done = asyncio.Event()
    async with asyncio.TaskGroup() as workers:
        churn.connect()
        life = await measure(churn)
        for number in range(WORKERS):
            workers.create_task(churn.work(number, done.is_set))
        for _ in range(kills):
            await asyncio.sleep(churn.random.uniform(0, 2 * life))
            churn.hold()
            await asyncio.to_thread(server.kill9)
            assert not (found := await asyncio.to_thread(astray, server, engine.api)), found
            await churn.disconnect()
            await asyncio.to_thread(server.start)
            states = await asyncio.to_thread(listed_states, server)
            assert not (found := await asyncio.to_thread(astray, server, engine.api)), found
            assert not (broken := broken_promises(churn.told, states)), broken
            churn.connect()
        done.set()
    await churn.disconnect()
    print(
        f"{churn.pods} pods, {churn.calls} calls, {churn.repeated} of them again, {churn.failed_starts} starts failed"
    )
    assert churn.pods > WORKERS
    assert churn.failed_starts <= WORKERS * kills
    assert_nothing_left(server, engine.api)
    assert server.stop() == 0
    assert_store_empty(server)
    # What a life cut short left in the process would be gone with it; its last life had pods, too.
    server.start()
    assert_nothing_left(server, engine.api, quiet)


async def measure(churn: Churn) -> float:
    """Seconds that a pod's life takes at present, when it is the only one."""
    began = time.monotonic()
    await churn.work(WORKERS, lambda: churn.pods > 0)
    return time.monotonic() - began
