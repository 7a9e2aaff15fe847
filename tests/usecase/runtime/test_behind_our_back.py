"""What others do to our containers shows up by itself, seen or unseen by the event stream, and leaks nothing."""

from __future__ import annotations

import asyncio

import pytest

from crishim.engine.simulated import Fail, Slow
from crishim.engine.values import ContainerSpec
from crishim.errors import EngineError, EngineUnavailable, NameReserved, SandboxNotReady
from crishim.runtime import labels
from crishim.runtime.engine_link import COMPARE_EVERY
from tests.usecase.runtime.world import World

EACH_CARRIER = True

LOST = 1000
"""More events than a test makes."""


@pytest.mark.pause
@pytest.mark.parametrize("events", ["seen", "lost"])
async def test_a_removed_sandbox_is_not_ready_and_cleaned_up(world: World, events: str) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    world.engine.drop_events(LOST * (events == "lost"))
    world.engine.vanish(sandbox)
    await world.until(lambda: world.state(sandbox) == "NOTREADY", COMPARE_EVERY + 1 if events == "lost" else 0.1)
    assert world.rt.index.need_sandbox(sandbox).ips == ()
    with pytest.raises(SandboxNotReady):
        await world.create(sandbox, name="late")
    await world.check_consistent()
    await world.stop(sandbox)
    await world.stop(sandbox)
    assert world.state(container) == "EXITED"
    assert (world.network.adds[sandbox], world.network.dels[sandbox]) == (1, 1)
    await world.remove(sandbox)
    await world.check_nothing_left()


@pytest.mark.pause
async def test_an_event_that_cannot_be_read_is_looked_into_at_once(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    connections, losses = world.rt.link.connections, world.rt.link.losses
    world.engine.garble_events(LOST)
    world.engine.finish(container)
    await world.until(lambda: world.state(container) == "EXITED", 1)
    world.engine.vanish(sandbox)
    await world.until(lambda: world.state(sandbox) == "NOTREADY", 1)
    assert (world.rt.link.connections, world.rt.link.losses) == (connections, losses)
    await world.remove(sandbox)
    await world.check_nothing_left()


@pytest.mark.pause
@pytest.mark.parametrize("events", ["seen", "lost"])
async def test_a_restarted_sandbox_is_not_ready_and_cleaned_up(world: World, events: str) -> None:
    sandbox = await world.run()
    world.engine.drop_events(LOST * (events == "lost"))
    world.engine.restart_container(sandbox)
    await world.until(lambda: world.state(sandbox) == "NOTREADY", COMPARE_EVERY + 1 if events == "lost" else 0.1)
    assert world.rt.index.need_sandbox(sandbox).running
    await world.check_consistent()
    await world.stop(sandbox)
    live = world.in_engine(sandbox)
    assert live is not None
    assert not live.pid
    assert world.network.dels[sandbox] == 1
    await world.remove(sandbox)
    await world.check_nothing_left()


@pytest.mark.parametrize("events", ["seen", "lost"])
async def test_a_removed_container_disappears(world: World, events: str) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    world.engine.drop_events(LOST * (events == "lost"))
    world.engine.vanish(container)
    await world.until(lambda: world.state(container) == "gone", COMPARE_EVERY + 1 if events == "lost" else 0.1)
    await world.until(lambda: world.rt.index.need_sandbox(sandbox).record.containers == {}, 1)
    assert not (world.folder / "logs" / "web" / "main-0.log").is_symlink()
    await world.check_consistent()


@pytest.mark.parametrize("events", ["seen", "lost"])
async def test_an_exit_is_told_whole(world: World, events: str) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    world.engine.drop_events(LOST * (events == "lost"))
    world.engine.finish(container, 7)
    await world.until(lambda: world.state(container) == "EXITED", COMPARE_EVERY + 1 if events == "lost" else 0.1)
    ended = world.rt.index.need_container(container)
    assert (ended.exit_code, ended.reason) == (7, "Error")
    assert 0 < ended.created_at <= ended.started_at <= ended.finished_at


async def test_an_exit_is_asked_for_until_it_is_answered(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    for error in (EngineError("broken"), EngineUnavailable("this answer was lost"), EngineError("broken")):
        world.engine.script("inspect", Fail(error))
    world.engine.finish(container, 3)
    await world.until(lambda: world.state(container) == "EXITED", 4)
    assert world.rt.index.need_container(container).exit_code == 3


async def test_a_fault_of_ours_with_one_object_does_not_end_the_watch(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    world.engine.script("inspect", Fail(KeyError("a bug")))
    world.engine.finish(container)
    await world.until(lambda: world.state(container) == "EXITED", 3)


@pytest.mark.pause
async def test_what_happens_between_being_read_and_being_known_counts(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    await world.node.close()
    world.engine.script("inspect", Slow(2), match=lambda i: i == sandbox)
    starting = world.background(world.start())
    await asyncio.sleep(1)  # the container was read, and is not known before its sandbox is
    world.engine.finish(container, 9)
    await starting
    assert world.state(container) == "EXITED"


async def test_oom_is_told_though_the_engine_is_late_with_it(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    await world.update_container(container, memory_limit_in_bytes=1 << 20)
    await world.quiet()
    states: list[str] = []
    unsubscribe = world.rt.index.subscribe(lambda _: states.append(world.rt.index.need_container(container).reason))
    asked = world.engine.calls["inspect"]
    world.engine.finish(container, 137)
    await world.engine.called("inspect", asked + 1)
    await world.quiet()
    machine = world.engine._machine.containers[container]
    machine.oom_killed = True
    machine.changed()
    await world.until(lambda: world.state(container) == "EXITED", 1)
    unsubscribe()
    assert set(states) - {""} == {"OOMKilled"}  # and never another reason before


async def test_a_stranger_in_a_containers_name_is_left_alone(world: World) -> None:

    stranger = await world.engine.create("k8s_POD_web_default_uid-web_0", ContainerSpec(image="busybox", labels={}))
    with pytest.raises(NameReserved):
        await world.run()
    assert world.in_engine(stranger) is not None
    world.engine.vanish(stranger)
    await world.run()


async def test_a_running_container_of_a_taken_name_is_never_removed(world: World) -> None:

    spec = ContainerSpec(image="busybox", command=("serve",), labels={labels.TYPE: "container"})
    ours = await world.engine.create("k8s_POD_web_default_uid-web_0", spec)
    await world.engine.start(ours)
    with pytest.raises(NameReserved):
        await world.run()
    live = world.in_engine(ours)
    assert live is not None
    assert live.pid
    world.engine.vanish(ours)


async def test_a_pods_own_labels_do_not_make_it_an_anchored_one(world: World) -> None:
    told = {labels.CARRIER: "anchored", labels.SANDBOX_ID: "another"}
    sandbox = await world.run(labels=told)
    await world.node.compare()
    assert world.states() == {sandbox: "READY"}
    assert world.rt.index.need_sandbox(sandbox).record.config.labels == told
    world.namespaces.ips[world.rt.index.need_sandbox(sandbox).pid] = ("10.0.0.9",)
    await world.store.delete(sandbox)
    await world.restart(kill=True)
    assert world.states() == {sandbox: "READY"}
    assert world.rt.index.need_sandbox(sandbox).record.config.labels == told
