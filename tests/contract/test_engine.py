"""The engine contract, on the simulated engine and on a real one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from crishim.engine.api import Engine
from crishim.engine.docker import DockerEngine
from crishim.engine.simulated import SimulatedEngine
from crishim.testing.engine_contract import CHECKS, Check, World
from tests.env import images
from tests.env.engine import ALTERNATIVE_RUNTIME, TestEngine

GO_DOWN = "check_engine_goes_away"
CLOSES = ("check_close_ends_all", "check_exec_when_the_engine_closes")


async def nothing(*_: object) -> None:
    """For a hand on the engine that this engine does not need."""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_simulated(check: Check, tmp_path: Path) -> None:
    engine = SimulatedEngine(root=tmp_path / "engine")

    async def go_down() -> None:
        engine.go_down()

    async def come_back() -> None:
        engine.come_back()

    async def run_out_of_memory(container_id: str) -> None:
        engine.finish(container_id, 137, oom_killed=True)

    world = World(
        image="busybox:latest",
        folder=tmp_path,
        go_down=go_down,
        come_back=come_back,
        run_out_of_memory=run_out_of_memory,
        open_calls=lambda: engine.listening + engine.pulls_under_way + engine.hanging,
        open_streams=lambda: engine.execs + engine.attached,
        runtime=engine.facts.runtimes[-1],
    )
    await engine.connect()
    await check(engine, world)
    if check.__name__ not in CLOSES:
        assert not await engine.list_containers(world.labels), "the check left containers"


@pytest.fixture
async def docker(engine: TestEngine, busybox_image: str) -> AsyncIterator[DockerEngine]:
    adapter = DockerEngine(engine.url)
    await adapter.connect()
    yield adapter
    await adapter.close()


def open_connections(socket: Path) -> Callable[[], int]:
    """Counts the connections that the engine has accepted on its socket (state 03 in /proc/net/unix)."""

    def count() -> int:
        rows = (line.split() for line in Path("/proc/net/unix").read_text().splitlines())
        return sum(1 for row in rows if row[-1] == str(socket) and row[5] == "03")

    return count


def own_sockets() -> int:
    """Sockets of this process: engines keep their ends of streams until their next garbage collection."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            count += os.readlink(link).startswith("socket:")
    return count


def docker_world(engine: TestEngine, image: str, folder: Path) -> World:
    """A world in a real engine."""

    async def go_down() -> None:
        await asyncio.to_thread(engine.kill9)

    async def come_back() -> None:
        await asyncio.to_thread(engine.start)

    return World(
        image=image,
        folder=folder,
        go_down=go_down,
        come_back=come_back,
        run_out_of_memory=nothing,
        open_calls=open_connections(engine.socket),
        open_streams=own_sockets,
        runtime=ALTERNATIVE_RUNTIME,
    )


@pytest.mark.engine
@pytest.mark.parametrize("check", [c for c in CHECKS if c.__name__ != GO_DOWN], ids=lambda check: check.__name__)
async def test_docker(
    check: Check, docker: DockerEngine, engine: TestEngine, busybox_image: str, tmp_path: Path
) -> None:
    world = docker_world(engine, busybox_image, tmp_path)
    try:
        await check(docker, world)
    finally:
        cleaner = DockerEngine(engine.url) if check.__name__ in CLOSES else docker
        await cleaner.connect()
        left = await cleaner.list_containers(world.labels)
        await world.clean(cleaner)
        if cleaner is not docker:
            await cleaner.close()
    assert not left or check.__name__ in CLOSES, "the check left containers"


@pytest.mark.engine
async def test_docker_goes_away(new_engine: Callable[..., TestEngine], tmp_path: Path) -> None:
    own = await asyncio.to_thread(new_engine, config={"live-restore": True})
    await asyncio.to_thread(images.busybox().load, own.api, images.BUSYBOX_REF)
    adapter: Engine = DockerEngine(own.url)
    await adapter.connect()
    try:
        check = next(check for check in CHECKS if check.__name__ == GO_DOWN)
        await check(adapter, docker_world(own, images.BUSYBOX_REF, tmp_path))
    finally:
        await adapter.close()
