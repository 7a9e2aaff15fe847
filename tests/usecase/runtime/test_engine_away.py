"""The engine is away, dies, hangs or is slow: who asks is told so at once, nothing turns dead, and all comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from crishim.checkpoint.errors import StoreUnavailable
from crishim.engine.simulated import Drop, Fail, Hang, Slow
from crishim.engine.values import ContainerSpec
from crishim.errors import (
    CRIError,
    EngineConflict,
    EngineError,
    EngineNotFound,
    EngineTimeout,
    EngineUnavailable,
    EngineUnsuitable,
    Kind,
)
from crishim.model import CgroupDriver, ImageSpec
from crishim.runtime import node_status
from crishim.runtime.engine_link import COMPARE_EVERY
from crishim.testing.faults import Faults
from tests.usecase.runtime.world import World

EACH_CARRIER = True

VERBS: dict[str, Callable[[World, str, str], Coroutine[Any, Any, object]]] = {
    "run": lambda w, s, c: w.run(name="other"),
    "create": lambda w, s, c: w.create(s, name="other"),
    "start": lambda w, s, c: w.start_container(c),
    "stop container": lambda w, s, c: w.stop_container(c),
    "remove container": lambda w, s, c: w.remove_container(c),
    "update container": lambda w, s, c: w.update_container(c, cpu_shares=2),
    "update pod": lambda w, s, c: w.update_pod(s, cpu_shares=2),
    "stop": lambda w, s, c: w.stop(s),
    "remove": lambda w, s, c: w.remove(s),
}


def told(world: World) -> tuple[bool, str]:
    ready, _ = node_status.node_status(world.rt).conditions
    return ready.status, ready.reason


async def test_absent_at_the_start(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.engine.go_down("no such socket")
    await world.start(connected=False)
    assert told(world) == (False, "DockerDaemonNotReady")
    await world.until(lambda: "no such socket" in node_status.node_status(world.rt).conditions[0].message, 1)
    assert node_status.version(world.rt).runtime_version == "0.0.0-unknown"
    assert node_status.runtime_config(world.rt) is None
    assert node_status.node_status(world.rt).handlers == ()
    with pytest.raises(EngineUnavailable):
        world.rt.link.need_loaded()
    for name, verb in VERBS.items():
        with pytest.raises(EngineUnavailable):
            await verb(world, "5a", "c0")
        assert name
    world.engine.come_back()
    await world.until(lambda: told(world) == (True, ""), 6)
    assert world.rt.link.loaded
    await world.run()
    await world.check_removable()
    await world.close()


async def test_absent_at_a_later_start(tmp_path: Path) -> None:
    """Nobody may believe that pods are gone, or stop half of one, before the engine was read."""
    world = World(tmp_path)
    await world.start()
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    version = node_status.version(world.rt)
    await world.node.close()
    world.engine.go_down()
    await world.start(connected=False)
    assert node_status.version(world.rt) == version
    assert node_status.runtime_config(world.rt) is CgroupDriver.CGROUPFS
    for verb in VERBS.values():
        with pytest.raises(EngineUnavailable):
            await verb(world, sandbox, container)
    assert world.network.dels.total() == 0
    assert sandbox in world.namespaces.held
    world.engine.come_back()
    assert await world.rt.link.wait_connected(6)
    assert world.states() == {sandbox: "READY", container: "RUNNING"}
    await world.check_removable()
    await world.close()


@pytest.mark.parametrize("containers_die", [False, True])
async def test_away_for_a_minute(world: World, containers_die: bool) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    created = await world.create(sandbox, name="second")
    states = world.states()
    world.engine.go_down("stopped", containers_die=containers_die)
    await world.until(lambda: told(world) == (False, "DockerDaemonNotReady"), 1)
    loop = asyncio.get_running_loop()
    for name, verb in VERBS.items():
        began = loop.time()
        if name == "update pod":
            await verb(world, sandbox, created)
        else:
            with pytest.raises(EngineUnavailable):
                await verb(world, sandbox, created if name == "start" else container)
        assert loop.time() - began < 0.1, name
    await asyncio.sleep(60)
    # What Stop has begun is remembered; nothing else has changed.
    assert world.states() == states | {sandbox: "NOTREADY"}
    assert world.network.dels.total() == 0
    world.engine.come_back()
    await world.until(lambda: told(world) == (True, ""), 6)
    assert world.state(container) == ("EXITED" if containers_die else "RUNNING")


async def test_a_ready_pod_survives_the_engines_restart(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    for _ in range(3):
        world.engine.go_down()
        await asyncio.sleep(60)
        assert world.states() == {sandbox: "READY", container: "RUNNING"}
        world.engine.come_back()
        assert await world.rt.link.wait_connected(6)
        assert world.states() == {sandbox: "READY", container: "RUNNING"}
    assert world.engine.listening == 1


@pytest.mark.parametrize("call", ["connect", "events", "survey", "inspect", "list_images"])
@pytest.mark.parametrize("fault", [Fail, Drop])
@pytest.mark.parametrize("error", [EngineUnavailable, EngineTimeout, EngineError])
async def test_what_fails_at_a_connection_is_tried_again(
    tmp_path: Path, call: str, fault: type[Fail] | type[Drop], error: type[CRIError]
) -> None:
    world = World(tmp_path)
    await world.start()
    sandbox = await world.run()
    await world.node.close()
    line = world.engine.script(call, fault(error("by the test")), times=3)
    await world.start(connected=False)
    assert await world.rt.link.wait_connected(30)
    # Images alone do not keep the engine away: they are read with the next comparison.
    await world.until(lambda: line.spent, 3 * COMPARE_EVERY)
    assert await world.rt.link.wait_connected(30)
    await world.until(lambda: world.rt.index.need_sandbox(sandbox).seen, 5)
    assert world.state(sandbox) == "READY"
    assert world.engine.listening == 1
    await world.check_removable()
    await world.close()


async def test_a_store_that_fails_does_not_keep_the_engine_away(tmp_path: Path) -> None:
    faults = Faults(1, "down")
    world = World(
        tmp_path,
        wrap=lambda name, target: faults.wrap(target, name, refused=StoreUnavailable) if name == "store" else target,
    )
    await world.start(connected=False)
    faults.armed = True
    assert await world.rt.link.wait_connected(5)
    assert faults.hit
    faults.armed = False
    await world.close()


async def test_an_engine_that_cannot_carry_pods_is_told_with_its_reason(world: World) -> None:
    world.engine.script("connect", Fail(EngineUnsuitable("rootless")), times=None)
    world.engine.go_down()
    world.engine.come_back()
    await world.until(lambda: told(world)[0] is False, 1)
    await world.until(lambda: "rootless" in node_status.node_status(world.rt).conditions[0].message, 10)
    with pytest.raises(EngineUnsuitable) as caught:
        await world.run()
    assert caught.value.kind is Kind.FAILED_PRECONDITION
    world.engine._gate.script = type(world.engine._gate.script)()
    assert await world.rt.link.wait_connected(10)


async def test_one_inspect_that_hangs_holds_nobody_else(world: World) -> None:
    sandbox, other = await world.run(), await world.run(name="other")
    container = await world.run_container(sandbox)
    line = world.engine.script("inspect", Hang(), times=None, match=lambda i: i == container)
    world.engine.finish(container)
    await world.until(lambda: world.engine.hanging == 1, 1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    second = await world.run_container(other)
    await world.stop_container(second)
    await world.remove(other)
    assert loop.time() - began < 0.1
    assert told(world) == (True, "")
    line.cancel()
    # The watch's own question is over when the engine's limit for it is; here, when the engine comes back.
    world.engine.go_down()
    world.engine.come_back()
    await world.until(lambda: world.state(container) == "EXITED", 10)


async def test_a_slow_engine(world: World) -> None:
    for call in ("create", "start", "inspect", "kill", "remove"):
        world.engine.script(call, Slow(5), times=None)
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    assert world.states() == {sandbox: "READY", container: "RUNNING"}
    assert told(world) == (True, "")
    await world.stop_container(container, 30)
    await world.remove(sandbox)
    world.engine._gate.script = type(world.engine._gate.script)()


@pytest.mark.pause
async def test_a_create_whose_effect_comes_late_is_found(world: World) -> None:
    """EngineTimeout, and nothing is there yet; a little later it is: the next comparison lists it."""
    name = "k8s_POD_web_default_uid-web_0"
    specs: list[ContainerSpec] = []

    def note(_: str, spec: ContainerSpec) -> bool:
        specs.append(spec)
        return True

    world.engine.script("create", Fail(EngineTimeout("busy")), match=note)
    with pytest.raises(EngineTimeout):
        await world.run()
    late = await world.engine.create(name, specs[0])
    await world.until(lambda: world.state(late) == "NOTREADY", 31)
    sandbox = await world.run()
    assert world.states() == {sandbox: "READY"}
    assert world.in_engine(late) is None


async def test_a_create_whose_answer_is_late_is_undone(world: World) -> None:
    world.engine.script("create", Drop(EngineTimeout("busy")))
    with pytest.raises(EngineTimeout):
        await world.run()
    assert world.engine.containers == ()


async def test_closed_is_away(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.start()
    await world.close()
    with pytest.raises(EngineUnavailable):
        _ = world.rt.link.engine


async def test_images_that_cannot_be_listed_do_not_keep_pods_from_running(world: World) -> None:
    """A damaged image can make the engine's whole list fail, and then for good."""
    sandbox = await world.run()
    world.engine.script("list_images", Fail(EngineError("content digest not found", kind=Kind.INTERNAL)), times=None)
    world.engine.go_down()
    world.engine.come_back()
    assert await world.rt.link.wait_connected(10)
    failed = world.engine.calls["list_images"]
    await world.until(lambda: world.engine.calls["list_images"] == failed + 3, 4 * COMPARE_EVERY)
    assert told(world) == (True, "")
    assert await world.rt.images.status(ImageSpec(image="busybox"))
    await world.stop(sandbox)
    await world.run(attempt=1)
    world.engine._gate.script = type(world.engine._gate.script)()


@pytest.mark.parametrize(
    "error", [EngineTimeout("t"), EngineError("e", kind=Kind.INTERNAL), EngineNotFound("n"), EngineConflict("c")]
)
async def test_whatever_keeps_the_engine_from_being_read_it_is_away(world: World, error: CRIError) -> None:
    """A verb must not take what a list of ours was answered for an answer about its own object."""
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    created = await world.create(sandbox, name="created")
    line = world.engine.script("survey", Fail(error), times=None)
    world.engine.go_down()
    world.engine.come_back()
    await world.until(lambda: line.hits > 1, 30)
    assert told(world) == (False, "DockerDaemonNotReady")
    for name, verb in VERBS.items():
        if name != "update pod":
            with pytest.raises(EngineUnavailable, match=str(error)):
                await verb(world, sandbox, created if name == "start" else container)
    assert world.state(container) == "RUNNING"
    line.cancel()
    assert await world.rt.link.wait_connected(30)
