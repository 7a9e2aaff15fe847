"""A pod's life when nothing goes wrong."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from crishim.engine.values import ContainerPhase
from crishim.errors import EngineError
from crishim.model import Mount
from tests.usecase.runtime.world import World

EACH_CARRIER = True


@pytest.mark.pause
async def test_from_run_to_remove(world: World) -> None:
    sandbox = await world.run()
    assert world.state(sandbox) == "READY"
    found = world.rt.index.need_sandbox(sandbox)
    assert found.ips == (world.network.ips[sandbox],)
    assert world.namespaces.held[sandbox] == found.pid
    live = world.in_engine(sandbox)
    assert live is not None
    assert "nameserver 10.0.0.10" in world.namespaces.resolv_conf[live.resolv_conf_path]

    container = await world.create(sandbox)
    assert world.state(container) == "CREATED"
    await world.start_container(container)
    assert world.state(container) == "RUNNING"
    log = world.folder / "logs" / "web" / "main-0.log"
    assert log.read_bytes() == b""
    world.engine.say(container, b"hello\n")
    await world.check_consistent()

    await world.stop_container(container, 10)
    assert (world.state(container), world.rt.index.need_container(container).exit_code) == ("EXITED", 143)
    await world.remove_container(container)
    assert world.state(container) == "gone"
    assert log.read_bytes().endswith(b" stdout F hello\n"), "it is the kubelet's to remove"

    await world.stop(sandbox)
    assert world.state(sandbox) == "NOTREADY"
    assert (world.network.adds.total(), world.network.dels.total()) == (1, 1)
    assert world.namespaces.held == {}
    await world.check_consistent()
    await world.remove(sandbox)
    await world.check_nothing_left()


@pytest.mark.pause
async def test_a_process_that_cannot_be_told_is_asked_for_again(world: World) -> None:
    world.namespaces.recognizes = False
    sandbox = await world.run()
    live = world.in_engine(sandbox)
    assert live is not None
    assert world.namespaces.held == {sandbox: live.pid}
    assert world.namespaces.sysctls.keys() == {sandbox}
    assert world.namespaces.resolv_conf.keys() == {live.resolv_conf_path}


@pytest.mark.pause
async def test_a_strangers_namespace_is_not_made_the_pods(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.namespaces.recognizes = False
    pinned = world.namespaces.pin

    async def pin(sandbox_id: str, pid: int) -> None:
        world.engine.restart_container(sandbox_id)  # the pid that was asked for is gone
        await pinned(sandbox_id, pid)

    monkeypatch.setattr(world.namespaces, "pin", pin)
    with pytest.raises(EngineError, match="ended right after its start"):
        await world.run()
    assert not world.namespaces.held
    assert not world.namespaces.sysctls
    await world.check_nothing_left()


async def test_remove_stops_what_runs(world: World) -> None:
    sandbox = await world.run()
    await world.run_container(sandbox)
    await world.create(sandbox, name="second")
    await world.remove(sandbox)
    await world.check_nothing_left()


@pytest.mark.pause
async def test_stop_ends_everything_and_may_come_again(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    for _ in range(2):
        await world.stop(sandbox)
        assert world.states() == {sandbox: "NOTREADY", container: "EXITED"}
    assert all(c.phase is ContainerPhase.EXITED for c in world.engine.containers)


async def test_mount_sources_are_looked_at_in_a_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One on a file server that is away holds whoever looks at it, and that must not be the event loop."""
    loop = asyncio.get_running_loop()
    in_thread = False
    looked: list[tuple[object, bool]] = []
    submit, lstat = loop.run_in_executor, os.lstat

    def run_in_executor(executor: Any, work: Callable[..., Any], *args: Any) -> Any:
        nonlocal in_thread
        in_thread = True
        try:
            return submit(executor, work, *args)  # on the spot
        finally:
            in_thread = False

    def look(path: Any, **options: Any) -> Any:
        looked.append((path, in_thread))
        return lstat(path, **options)

    sandbox = await world.run()
    with monkeypatch.context() as patched:
        patched.setattr(loop, "run_in_executor", run_in_executor)
        patched.setattr(os, "lstat", look)
        await world.create(sandbox, mounts=(Mount(container_path="/data", host_path=str(world.folder)),))
    assert (str(world.folder), True) in looked
    assert (str(world.folder), False) not in looked
