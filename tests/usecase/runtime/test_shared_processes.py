"""Anchored pods whose containers share a PID namespace: they have a process, and are not lost with it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crishim.checkpoint.record import Carrier, Phase
from crishim.engine.values import ContainerPhase
from crishim.errors import ContainerNotFound, ContainerStartFailed, EngineError, FrontFailed, SandboxNotReady
from crishim.front.wire import Question
from crishim.model import (
    IDMapping,
    LinuxContainerConfig,
    LinuxContainerSecurityContext,
    LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext,
    NamespaceMode,
    NamespaceOption,
    UserNamespace,
)
from crishim.runtime.front import Front
from crishim.runtime.wishes import edit_of
from tests.usecase.runtime.world import SHARING, World, pod_linux

OWN_PIDS = LinuxContainerConfig(
    security_context=LinuxContainerSecurityContext(namespace_options=NamespaceOption(pid=NamespaceMode.CONTAINER))
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A world whose engine has a front and whose pods share their processes; at the end nothing is left."""
    world = World(tmp_path, carrier=Carrier.ANCHORED)
    world.linux = SHARING
    await world.start()
    yield world
    await world.check_consistent()
    await world.check_removable()
    await world.close()


async def asked(world: World, object_id: str) -> Any:
    """What the front is told about the engine's container."""
    edit = partial(edit_of, folder=world.namespaces.folder)
    front = Front(world.rt.index, edit, world.rt.background)
    return json.loads((await front.answer(Question("create", object_id, "", b"{}"))).config)


async def test_containers_join_the_process(world: World) -> None:
    pod = await world.run(name="web")
    process = world.objects[pod]
    assert (process.phase, process.runtime) == (ContainerPhase.RUNNING, "crishim-runc")
    assert process.network_mode in (f"container:{world.rt.anchor.name}", f"container:{world.rt.anchor.id}")
    assert world.rt.index.need_sandbox(pod).record.carrier is Carrier.ANCHORED
    container, alone = await world.run_container(pod), await world.run_container(pod, name="alone", linux=OWN_PIDS)
    assert world.objects[container].pid_mode == f"container:{process.id}"
    assert world.objects[alone].pid_mode == ""
    folder = world.namespaces.folder(pod)
    paths = {"network": world.namespaces.path(pod), "ipc": f"{folder}/ipc", "uts": f"{folder}/uts"}
    for one in (process.id, container):
        found = (await asked(world, one))["linux"]["namespaces"]
        assert {each["type"]: each["path"] for each in found} == paths
    await world.stop(pod)
    assert world.objects[pod].phase is ContainerPhase.EXITED
    assert world.states() == {pod: "NOTREADY", container: "EXITED", alone: "EXITED"}
    with pytest.raises(FrontFailed, match="not ready"):
        await asked(world, process.id)


async def test_on_the_hosts_network(world: World) -> None:
    pod = await world.run(linux=pod_linux(pid=NamespaceMode.POD, network=NamespaceMode.NODE))
    container = await world.run_container(pod)
    assert [world.objects[one].network_mode for one in (pod, container)] == ["host", "host"]
    assert world.objects[container].pid_mode == f"container:{world.objects[pod].id}"


async def test_with_a_user_namespace(world: World) -> None:
    world.engine.facts = replace(world.engine.facts, storage_driver="overlay2", kernel="6.1.0")
    await world.restart()
    run = IDMapping(host_id=100_000, container_id=0, length=65_536)
    options = NamespaceOption(userns_options=UserNamespace(uids=(run,), gids=(run,)))
    context = LinuxSandboxSecurityContext(namespace_options=options)
    pod = await world.run(linux=LinuxPodSandboxConfig(security_context=context))
    inside = LinuxContainerConfig(security_context=LinuxContainerSecurityContext(namespace_options=options))
    container = await world.run_container(pod, linux=inside)
    assert world.objects[container].pid_mode == f"container:{world.objects[pod].id}"
    for one in (world.objects[pod].id, container):
        # Only what the engine made can be shifted: the wish reaches as far as that.
        with pytest.raises(FrontFailed, match="no root file system whose owners"):
            await asked(world, one)


@pytest.mark.parametrize("way", ["killed", "removed"])
@pytest.mark.parametrize("heard", [True, False])
async def test_the_process_comes_again_with_the_next_container(world: World, way: str, heard: bool) -> None:
    pod = await world.run()
    first = world.objects[pod].id
    if not heard:
        world.engine.drop_events(9)
    await (world.engine.kill(first, "SIGKILL") if way == "killed" else world.engine.remove(first))
    await world.quiet()
    assert world.state(pod) == "READY", "it has its namespaces"
    if way == "removed" and not heard:
        await world.node.compare()  # a create that names a container that is gone is an engine's error
    container = await world.run_container(pod)
    assert world.objects[pod].phase is ContainerPhase.RUNNING
    assert (world.objects[pod].id == first) is (way == "killed")
    assert world.objects[container].pid_mode == f"container:{world.objects[pod].id}"


async def test_a_start_whose_pods_process_died_unheard(world: World) -> None:
    pod = await world.run()
    container = await world.create(pod)
    world.engine.drop_events(9)
    await world.engine.kill(world.objects[pod].id, "SIGKILL")
    await world.start_container(container)
    assert (world.state(container), world.objects[pod].phase) == ("RUNNING", ContainerPhase.RUNNING)


async def test_a_container_of_a_process_that_was_removed(world: World) -> None:
    pod = await world.run()
    container = await world.create(pod)
    await world.engine.remove(world.objects[pod].id)
    with pytest.raises(ContainerStartFailed, match="a new container joins the new one"):
        await world.start_container(container)
    assert await world.run_container(pod, attempt=1)


async def test_a_process_that_is_elsewhere_is_made_anew(world: World) -> None:
    pod = await world.run()
    first = world.objects[pod]
    world.namespaces.astray[first.pid] = ("network",)
    await world.restart()
    await world.node.compare()
    await world.quiet()
    assert world.objects[pod].id != first.id
    world.namespaces.astray[world.objects[pod].pid + 1] = ("uts",)
    with pytest.raises(EngineError, match="not in its pod's uts namespace"):
        await world.run(name="other")


@pytest.mark.parametrize("kill", [True, False])
async def test_a_restart_and_a_lost_record(world: World, kill: bool) -> None:
    pod = await world.run()
    container = await world.run_container(pod)
    process = world.objects[pod].id
    world.namespaces.ips[0] = world.rt.index.need_sandbox(pod).ips  # what the pinned namespace has
    for lost in (False, True):
        await (world.server.kill() if kill else world.node.close())
        if lost:
            await world.store.delete(pod)
        await world.start()
        assert world.states() == {pod: "READY", container: "RUNNING"}
        assert world.objects[pod].id == process
        assert world.rt.index.need_sandbox(pod).record.object_id == process
    assert await world.run_container(pod, name="second")


async def test_a_stopped_pods_process_does_not_come_again(world: World) -> None:
    pod = await world.run()
    await world.stop(pod)
    await world.node.compare()
    await world.restart()
    assert world.objects[pod].phase is ContainerPhase.EXITED
    with pytest.raises(SandboxNotReady):
        await world.rt.processes.ensure(pod)
    with pytest.raises(ContainerNotFound):
        await asked(world, "f" * 64)
    assert world.rt.index.need_sandbox(pod).record.phase is Phase.STOPPED
