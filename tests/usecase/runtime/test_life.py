"""A pod's life when nothing goes wrong."""

from __future__ import annotations

import os

from crishim.engine.values import ContainerPhase
from tests.usecase.runtime.world import World


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
    shown = world.in_engine(container)
    assert shown is not None
    assert os.readlink(log) == shown.log_path
    await world.check_consistent()

    await world.stop_container(container, 10)
    assert (world.state(container), world.rt.index.need_container(container).exit_code) == ("EXITED", 143)
    await world.remove_container(container)
    assert world.state(container) == "gone"
    assert not log.is_symlink()

    await world.stop(sandbox)
    assert world.state(sandbox) == "NOTREADY"
    assert (world.network.adds.total(), world.network.dels.total()) == (1, 1)
    assert world.namespaces.held == {}
    await world.check_consistent()
    await world.remove(sandbox)
    await world.check_nothing_left()


async def test_remove_stops_what_runs(world: World) -> None:
    sandbox = await world.run()
    await world.run_container(sandbox)
    await world.create(sandbox, name="second")
    await world.remove(sandbox)
    await world.check_nothing_left()


async def test_stop_ends_everything_and_may_come_again(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    for _ in range(2):
        await world.stop(sandbox)
        assert world.states() == {sandbox: "NOTREADY", container: "EXITED"}
    assert all(c.phase is ContainerPhase.EXITED for c in world.engine.containers)
