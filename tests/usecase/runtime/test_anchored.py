"""Pods without a process: what becomes of them when somebody takes away what they depend on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from crishim.checkpoint.record import Carrier
from crishim.engine.simulated.faults import Fail, Hang
from crishim.engine.values import ContainerPhase, ContainerSpec, EngineContainer
from crishim.errors import (
    ContainerStartFailed,
    EngineConflict,
    EngineError,
    EngineNotFound,
    FrontFailed,
    InvalidArgument,
    Kind,
    PortForwardFailed,
    UnsupportedField,
)
from crishim.front.twins import conf_path
from crishim.images.service import ImageSettings
from crishim.model import (
    ContainerMetadata,
    IDMapping,
    LinuxContainerConfig,
    LinuxContainerSecurityContext,
    LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext,
    NamespaceMode,
    NamespaceOption,
    UserNamespace,
)
from crishim.runtime import labels
from crishim.runtime.core import RuntimeSettings
from crishim.runtime.host import detect
from crishim.runtime.node_status import node_status
from crishim.runtime.sandbox_port_forward import prepare_port_forward
from tests.usecase.runtime.world import ANCHORED_HOST_NETWORK, SHARING, World, pod_linux


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A world whose engine has a front; at the end everything is removed and nothing is left."""
    world = World(tmp_path, carrier=Carrier.ANCHORED)
    await world.start()
    yield world
    await world.check_consistent()
    await world.check_removable()
    await world.close()


def anchors(world: World) -> list[EngineContainer]:
    """The anchors that the engine has."""
    return [c for c in world.engine.containers if labels.ANCHOR in c.labels]


async def test_no_process_but_the_anchors(world: World) -> None:
    pod = await world.run()
    assert (pod in world.objects, world.objects[pod].phase) == (True, ContainerPhase.CREATED)
    assert world.objects[pod].id != pod
    assert anchors(world) == [], "nobody needs it yet"
    container = await world.run_container(pod)
    (anchor,) = anchors(world)
    assert world.objects[container].network_mode in (f"container:{anchor.name.lstrip('/')}", f"container:{anchor.id}")
    assert world.objects[container].runtime == "crishim-runc"
    assert world.objects[pod].runtime == "runc"
    assert world.states() == {pod: "READY", container: "RUNNING"}


async def test_the_namespaces_are_what_was_asked(world: World) -> None:
    pod = await world.run(name="one")
    assert world.namespaces.made[pod].kinds == {"network", "ipc", "uts"}
    assert world.namespaces.made[pod].hostname == "one"
    assert world.namespaces.made[pod].files["resolv.conf"] == "nameserver 10.0.0.10\nsearch svc.cluster.local\n"
    host = await world.run(name="two", linux=ANCHORED_HOST_NETWORK)
    assert world.namespaces.made[host].kinds == {"ipc"}
    container = await world.run_container(host)
    assert world.objects[container].network_mode == "host"


async def test_the_object_is_made_again_at_once(world: World) -> None:
    pod = await world.run()
    before = world.objects[pod]
    await world.engine.remove(before.id)
    await world.until(lambda: pod in world.objects, 1)
    await world.quiet()
    after = world.objects[pod]
    assert after.id != before.id
    assert after.labels == before.labels
    assert world.state(pod) == "READY"
    assert world.rt.index.need_sandbox(pod).record.object_id == after.id


async def test_an_object_that_goes_while_nobody_looks(world: World) -> None:
    pod, other = await world.run(), await world.run(name="other")
    await world.stop(other)
    await world.server.kill()
    for each in (pod, other):
        await world.engine.remove(world.objects[each].id)
    await world.start()
    assert (pod in world.objects, other in world.objects) == (True, False)
    assert world.states() == {pod: "READY", other: "NOTREADY"}


async def test_a_strangers_container_under_the_objects_name(world: World) -> None:
    pod = await world.run()
    name = world.objects[pod].name.lstrip("/")
    await world.server.kill()
    await world.engine.remove(world.objects[pod].id)
    stranger = await world.engine.create(name, ContainerSpec(image="busybox", labels={}))
    await world.start()
    assert world.state(pod) == "READY"
    assert pod not in world.objects, "the name is not to be had"
    await world.engine.remove(stranger)
    await world.node.compare()
    assert world.objects[pod].name.lstrip("/") == name


async def test_pins_gone(world: World) -> None:
    pod = await world.run()
    container = await world.run_container(pod)
    await world.namespaces.unpin(pod)
    assert world.state(pod) == "READY", "nobody has looked"
    await world.node.compare()
    assert world.states() == {pod: "NOTREADY", container: "RUNNING"}
    await world.restart()
    assert world.states() == {pod: "NOTREADY", container: "RUNNING"}


async def test_ready_without_the_engine(world: World) -> None:
    pod = await world.run()
    await world.node.close()
    world.engine.go_down()
    await world.start(connected=False)
    assert world.state(pod) == "READY"
    world.engine.come_back()
    assert await world.rt.link.wait_connected(60)


@pytest.mark.parametrize("way", ["killed", "removed"])
async def test_the_anchor_is_held_up(world: World, way: str) -> None:
    pod = await world.run()
    container = await world.run_container(pod)
    (anchor,) = anchors(world)
    await (world.engine.kill(anchor.id, "SIGKILL") if way == "killed" else world.engine.remove(anchor.id))
    await world.until(lambda: any(a.phase is ContainerPhase.RUNNING for a in anchors(world)), 1)
    await world.quiet()
    assert len(anchors(world)) == 1
    assert world.state(container) == "RUNNING"
    assert await world.run_container(pod, name="second")


async def test_a_start_whose_anchor_died_unheard(world: World) -> None:
    pod = await world.run()
    container = await world.create(pod)
    (anchor,) = anchors(world)
    world.engine.drop_events(9)
    await world.engine.kill(anchor.id, "SIGKILL")
    await world.start_container(container)
    assert world.state(container) == "RUNNING"


async def test_an_anchor_removed_unheard_is_made_again_by_the_next_comparison(world: World) -> None:
    pod = await world.run()
    await world.run_container(pod)
    (anchor,) = anchors(world)
    world.engine.drop_events(9)
    await world.engine.remove(anchor.id)
    await world.node.compare()
    assert [a.phase for a in anchors(world)] == [ContainerPhase.RUNNING]
    assert await world.run_container(pod, name="second")


async def test_somebody_elses_container_is_no_anchor(world: World, tmp_path: Path) -> None:
    pod = await world.run()
    await world.run_container(pod)
    (anchor,) = anchors(world)
    other = World(tmp_path / "other", carrier=Carrier.ANCHORED)
    await other.start()
    try:
        assert other.rt.anchor.name != world.rt.anchor.name
        foreign = await other.engine.create(other.rt.anchor.name, ContainerSpec(image="busybox", labels={}))
        sandbox = await other.run()
        with pytest.raises(EngineConflict, match="is not the anchor of this server"):
            await other.create(sandbox)
        await other.remove(sandbox)
        await other.engine.remove(foreign)
    finally:
        await other.close()
    assert anchors(world) == [anchor]


async def test_a_container_that_is_elsewhere_is_killed(world: World) -> None:
    pod = await world.run()
    container, other = await world.create(pod), await world.run_container(pod, name="other")
    pid = world.objects[other].pid + 1
    world.namespaces.astray[pid] = ("network", "uts")
    with pytest.raises(ContainerStartFailed, match="not in its pod's network, uts namespace"):
        await world.start_container(container)
    assert world.states() == {pod: "READY", container: "EXITED", other: "RUNNING"}
    world.namespaces.astray[world.objects[other].pid] = ("ipc",)
    await world.node.compare()
    await world.until(lambda: world.state(other) == "EXITED", 5)


async def test_a_front_that_went_away(world: World) -> None:
    """Pods live on; nothing can be created in them, and new ones have a process again, unless that is not wanted."""
    pod = await world.run()
    container = await world.run_container(pod)
    conf_path(world.folder / "front").rename(world.folder / "kept")
    await world.restart()
    assert world.states() == {pod: "READY", container: "RUNNING"}
    with pytest.raises(FrontFailed, match="install-runtime"):
        await world.create(pod, name="second")
    paused = await world.run(name="paused")
    assert world.objects[paused].phase is ContainerPhase.RUNNING
    (world.folder / "kept").rename(conf_path(world.folder / "front"))
    await world.restart()
    assert world.states() == {pod: "READY", container: "RUNNING", paused: "READY"}
    assert await world.run_container(paused)
    assert await world.run_container(pod, name="second")
    assert detect(0, twins=world.engine.facts.twins, desk=world.folder / "front.sock").twin_of("runc")


async def test_a_front_that_is_wanted_and_missing(world: World) -> None:
    """Status says so, and so does RunPodSandbox."""
    conf_path(world.folder / "front").rename(world.folder / "kept")
    await world.restart(settings=RuntimeSettings(carrier="anchored"))
    condition = node_status(world.rt).conditions[0]
    assert (condition.status, condition.reason) == (False, "RuntimeFrontMissing")
    assert "install-runtime" in condition.message
    with pytest.raises(FrontFailed, match="install-runtime"):
        await world.run()
    with pytest.raises(FrontFailed, match="install-runtime"):
        await world.run(name="shared", linux=SHARING)
    (world.folder / "kept").rename(conf_path(world.folder / "front"))
    await world.restart(settings=RuntimeSettings(carrier="anchored"))
    assert node_status(world.rt).conditions[0].status
    pod = await world.run()
    assert world.objects[pod].phase is ContainerPhase.CREATED
    told = node_status(world.rt).info["carrier"]
    assert isinstance(told, dict)
    assert told["handlers"] == {"runc": "anchored"}
    assert told["pods"] == {"anchored": 1}


async def test_pause_is_what_was_set(world: World) -> None:
    await world.restart(settings=RuntimeSettings(carrier="pause"))
    pod = await world.run()
    assert world.objects[pod].phase is ContainerPhase.RUNNING
    assert await world.run_container(pod)


async def test_a_port_of_a_pod_on_the_hosts_network(world: World) -> None:
    pod = await world.run(linux=ANCHORED_HOST_NETWORK)
    forward = prepare_port_forward(world.rt, pod, (80,))
    with pytest.raises(PortForwardFailed):
        await forward.connect(80)


async def test_processes_that_cannot_be_shared(world: World) -> None:
    pod = await world.run(linux=pod_linux())
    context = LinuxContainerSecurityContext(namespace_options=NamespaceOption(pid=NamespaceMode.POD))
    with pytest.raises(InvalidArgument, match="pid"):
        await world.create(pod, linux=LinuxContainerConfig(security_context=context))
    assert await world.create(pod, metadata=ContainerMetadata(name="again"))


async def test_a_failed_create_leaves_the_object_to_nobody(world: World) -> None:
    world.engine.script("create", Fail(EngineError("no")))
    with pytest.raises(EngineError):
        await world.run()
    assert world.states() == {}
    await world.check_nothing_left()


async def test_an_anchor_that_goes_between_a_look_and_a_create(world: World) -> None:
    pod = await world.run()
    await world.run_container(pod)
    (anchor,) = anchors(world)
    world.engine.drop_events(9)
    await world.engine.remove(anchor.id)
    assert world.rt.anchor.id == anchor.id, "nobody knows"
    container = await world.run_container(pod, name="second")
    (made,) = anchors(world)
    assert world.objects[container].network_mode in (f"container:{made.name.lstrip('/')}", f"container:{made.id}")
    assert made.id != anchor.id


async def test_an_anchor_that_goes_again_and_again(world: World) -> None:
    """Should an engine look for it at the create (20.10 does at the start): it is no container that was not found, and
    the caller may try again."""
    pod = await world.run()
    await world.run_container(pod)
    world.engine.drop_events(99)
    create = world.engine.create

    async def create_without(name: str, spec: ContainerSpec) -> str:
        if labels.ANCHOR not in spec.labels:
            for anchor in anchors(world):
                await world.engine.remove(anchor.id)
            raise EngineNotFound("no such container: the anchor")
        return await create(name, spec)

    world.engine.create = create_without  # type: ignore[method-assign]
    with pytest.raises(EngineError, match="taken away again and again") as caught:
        await world.create(pod, name="second")
    assert caught.value.kind is Kind.UNAVAILABLE
    world.engine.create = create  # type: ignore[method-assign]
    assert await world.run_container(pod, name="third")


async def test_the_object_of_a_pod_with_a_user_namespace_under_another_carrier(world: World) -> None:
    """What new pods may have is nothing to a pod that has it."""
    run = IDMapping(host_id=100_000, container_id=0, length=65_536)
    options = NamespaceOption(
        pid=NamespaceMode.CONTAINER, userns_options=UserNamespace(mode=NamespaceMode.POD, uids=(run,), gids=(run,))
    )
    context = LinuxSandboxSecurityContext(namespace_options=options)
    world.engine.facts = replace(world.engine.facts, kernel="6.1.0", storage_driver="overlay2")
    await world.restart()
    pod = await world.run(linux=LinuxPodSandboxConfig(security_context=context))
    before = world.objects[pod]
    await world.server.kill()
    await world.engine.remove(before.id)
    await world.start(settings=RuntimeSettings(carrier="pause"))
    assert world.objects[pod].labels == before.labels
    assert world.objects[pod].id != before.id
    with pytest.raises(UnsupportedField):
        await world.run(name="other", linux=LinuxPodSandboxConfig(security_context=context))


async def test_a_comparison_waits_for_no_pull(world: World) -> None:
    """Nor does a pod's end: the object is made when the sandbox image is there."""
    images = ImageSettings(sandbox_image="host.example/pause:3")
    pod, other = await world.run(), await world.run(name="other")
    await world.server.kill()
    for each in (pod, other):
        await world.engine.remove(world.objects[each].id)
    hang = world.engine.script("pull", Hang())
    await asyncio.wait_for(world.start(connected=False, image_settings=images), 5)
    assert await world.rt.link.wait_connected(5)
    await world.until(lambda: hang.hits == 1, 5)
    assert world.states() == {pod: "READY", other: "READY"}
    await asyncio.wait_for(world.node.compare(), 5)
    await asyncio.wait_for(world.remove(other), 5)
    hang.cancel()
    await world.until(lambda: len(world.rt.background) == 0, 400)
    await world.node.compare()
    await world.quiet()
    await world.node.compare()
    assert pod in world.objects
