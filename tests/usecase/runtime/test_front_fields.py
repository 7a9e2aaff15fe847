"""Fields that the runtime's front carries: who runs the container, what the front is told, what an update does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crishim.engine.simulated import SimulatedEngine
from crishim.engine.simulated.facts import default_facts
from crishim.errors import ContainerNotFound, FrontFailed, InvalidArgument, UnsupportedField
from crishim.front.twins import TwinConf, conf_path, marker_path
from crishim.front.wire import Question
from crishim.model import (
    Capability,
    IDMapping,
    LinuxContainerConfig,
    LinuxContainerResources,
    LinuxContainerSecurityContext,
    LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext,
    Mount,
    NamespaceMode,
    NamespaceOption,
    UserNamespace,
)
from crishim.runtime import cgroup_files, node
from crishim.runtime.core import RuntimeSettings
from crishim.runtime.front import Front
from crishim.runtime.node_status import node_status
from crishim.runtime.wishes import edit_of
from tests.usecase.runtime.world import World, pod_linux

KILL = "CAP_KILL"
AMBIENT = LinuxContainerConfig(
    security_context=LinuxContainerSecurityContext(capabilities=Capability(add_ambient_capabilities=("KILL",)))
)
CONFIG: dict[str, Any] = {"process": {"capabilities": {}}, "mounts": [{"destination": "/x", "options": ["ro"]}]}


@pytest.fixture
async def fronted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A world with an old engine whose runtime has a front that asks this server."""
    desk, program = tmp_path / "front.sock", tmp_path / "crishim-runc"
    conf_path(program).write_text(TwinConf("/usr/sbin/runc", str(desk)).text())

    async def recursing(_programs: object, runtimes: Any) -> frozenset[str]:
        return frozenset(runtimes)

    monkeypatch.setattr(node, "recursing", recursing)  # it runs a program, which virtual time would not wait for
    world = World(tmp_path)
    facts = replace(
        default_facts(str(tmp_path)),
        api_version=(1, 41),
        readonly_recursion=frozenset(),
        storage_driver="overlay2",
        kernel="6.1.0",
        twins={"runc": str(program)},
    )
    world.engine = SimulatedEngine(facts=facts, clock=world.clock, root=tmp_path / "engine")
    await world.start(desk=desk)
    yield world
    await world.check_removable()
    await world.close()
    assert [*marker_path(desk, "").glob("*")] == []


async def ask(world: World, verb: str, container_id: str, config: dict[str, Any]) -> Any:
    """What the front is told, now."""
    front = Front(world.rt.index, edit_of, world.rt.background)
    return json.loads((await front.answer(Question(verb, container_id, "", json.dumps(config).encode()))).config)


async def test_who_asks_for_nothing_is_run_as_ever(fronted: World) -> None:
    desk = fronted.folder / "front.sock"
    await fronted.restart(desk=desk, settings=RuntimeSettings(carrier="pause"))
    sandbox = await fronted.run()
    container = await fronted.run_container(sandbox)
    assert [live.runtime for live in fronted.engine.containers] == ["runc", "runc"]
    for question in (sandbox, container):
        with pytest.raises(InvalidArgument, match="nothing to carry"):
            await ask(fronted, "create", question, CONFIG)
    with pytest.raises(ContainerNotFound):
        await ask(fronted, "create", "f" * 64, CONFIG)


async def test_who_asks_is_run_by_the_twin_and_the_front_is_told(fronted: World, tmp_path: Path) -> None:
    mount = Mount(container_path="/x", host_path=str(tmp_path), readonly=True, recursive_read_only=True)
    container = await fronted.create(
        await fronted.run(), linux=AMBIENT, mounts=(replace(mount, mount_options=("noexec",)),)
    )
    desk = tmp_path / "front.sock"
    live = fronted.in_engine(container)
    assert live is not None
    assert live.runtime == "crishim-runc"
    assert not marker_path(desk, container).exists()
    for _ in range(2):
        made = await ask(fronted, "create", container, CONFIG)
        assert made["mounts"][0]["options"] == ["noexec", "rro"]
        assert made["process"]["capabilities"]["ambient"] == [KILL]
        await fronted.restart(kill=True, desk=desk)
    await fronted.start_container(container)
    assert marker_path(desk, container).exists()
    assert (await ask(fronted, "exec", container, {}))["capabilities"]["ambient"] == [KILL]
    await fronted.restart(kill=True, desk=desk)
    assert marker_path(desk, container).exists()
    with pytest.raises(FrontFailed, match="nothing is mounted at /x"):
        await ask(fronted, "create", container, {"mounts": []})


async def test_a_container_does_not_start_without_its_mark(fronted: World, tmp_path: Path) -> None:
    container = await fronted.create(await fronted.run(), linux=AMBIENT)
    (tmp_path / "front").write_text("in the way")
    with pytest.raises(FrontFailed):
        await fronted.start_container(container)
    assert fronted.state(container) == "CREATED"
    (tmp_path / "front").unlink()
    await fronted.start_container(container)
    assert fronted.state(container) == "RUNNING"


async def test_handlers_tell_what_they_can(fronted: World) -> None:
    told = node_status(fronted.rt)
    assert {handler.name: handler.recursive_read_only_mounts for handler in told.handlers} == {"": True, "runc": True}
    assert told.mount_options
    await fronted.restart(desk=None)  # without a desk: the front asks somebody else
    told = node_status(fronted.rt)
    assert [handler.recursive_read_only_mounts for handler in told.handlers] == [False, False]
    assert not told.mount_options
    with pytest.raises(UnsupportedField, match=r"add_ambient_capabilities: .*crishim install-runtime"):
        await fronted.create(await fronted.run(), linux=AMBIENT)
    await fronted.restart(desk=fronted.folder / "front.sock")


async def test_a_pod_with_a_user_namespace(fronted: World) -> None:
    run = IDMapping(host_id=100_000, container_id=0, length=65_536)
    options = NamespaceOption(pid=NamespaceMode.CONTAINER, userns_options=UserNamespace(uids=(run,), gids=(run,)))
    context = LinuxSandboxSecurityContext(namespace_options=options)
    sandbox = await fronted.run(linux=LinuxPodSandboxConfig(security_context=context))
    assert fronted.namespaces.made[sandbox].kinds == {"network", "ipc", "uts", "user"}
    assert fronted.namespaces.made[sandbox].owner == (100_000, 100_000)
    inside = LinuxContainerConfig(security_context=LinuxContainerSecurityContext(namespace_options=options))
    container = await fronted.run_container(sandbox, linux=inside)
    live = fronted.in_engine(container)
    assert live is not None
    assert live.runtime == "crishim-runc"
    edit = edit_of(fronted.rt.index, Question("create", container, "", b"{}"), fronted.namespaces.folder)
    assert edit is not None
    with pytest.raises(FrontFailed, match="no root file system whose owners"):
        edit({})
    assert {handler.user_namespaces for handler in node_status(fronted.rt).handlers} == {True}
    await fronted.check_consistent()
    await fronted.restart(kill=True)
    assert (fronted.state(sandbox), fronted.state(container)) == ("READY", "RUNNING")
    await fronted.remove_container(container)
    await fronted.restart(settings=replace(fronted.rt.settings, carrier="pause"))
    with pytest.raises(UnsupportedField, match="the setting `carrier` is pause"):
        await fronted.run(name="other", linux=LinuxPodSandboxConfig(security_context=context))
    assert {handler.user_namespaces for handler in node_status(fronted.rt).handlers} == {False}


async def test_a_lost_pods_containers_do_not_start(fronted: World) -> None:
    """Neither record nor object tells that it was anchored, and what else the front carries is not enough."""
    sandbox = await fronted.run(linux=pod_linux())
    container = await fronted.create(sandbox, linux=AMBIENT)
    edit = edit_of(fronted.rt.index, Question("create", container, "", b"{}"), fronted.namespaces.folder)
    assert edit is not None
    await fronted.server.kill()
    await fronted.engine.remove(fronted.objects[sandbox].id)
    await fronted.store.delete(sandbox)
    await fronted.start(desk=fronted.folder / "front.sock")
    assert (fronted.state(sandbox), fronted.state(container)) == ("NOTREADY", "CREATED")
    with pytest.raises(FrontFailed, match="is not ready"):
        await ask(fronted, "create", container, CONFIG)


async def test_files_of_the_cgroup_are_updated_or_put_back(
    fronted: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroup = tmp_path / "cgroup"
    cgroup.mkdir()
    for name in ("memory.high", "memory.low"):
        (cgroup / name).write_text("0\n")
    monkeypatch.setattr(cgroup_files, "_folder", lambda *_: cgroup)

    def in_force() -> dict[str, str]:
        return {path.name: path.read_text().split()[0] for path in cgroup.iterdir()}

    resources = LinuxContainerResources(unified={"memory.high": "10"})
    container = await fronted.create(await fronted.run(), linux=LinuxContainerConfig(resources=resources))
    made = await ask(fronted, "create", container, {})
    assert made["linux"]["resources"]["unified"] == {"memory.high": "10"}
    await fronted.update_container(container, unified={"memory.low": "20"})
    assert in_force() == {"memory.high": "0", "memory.low": "0"}, "it does not run yet"
    await fronted.start_container(container)
    assert in_force() == {"memory.high": "10", "memory.low": "20"}
    (cgroup / "memory.low").write_text("0\n")  # as an OCI runtime does that was created without it
    await fronted.update_container(container, cpu_shares=5)
    assert in_force() == {"memory.high": "10", "memory.low": "20"}
    await fronted.update_container(container, unified={"memory.high": "30"})
    assert in_force() == {"memory.high": "30", "memory.low": "20"}
    made = await ask(fronted, "create", container, {})
    assert made["linux"]["resources"]["unified"] == {"memory.high": "30", "memory.low": "20"}, "after a restart of it"
    with pytest.raises(UnsupportedField, match=r"linux\.unified\[memory\.none\]"):
        await fronted.update_container(container, cpu_shares=77, unified={"memory.low": "5", "memory.none": "1"})
    assert in_force() == {"memory.high": "30", "memory.low": "20"}
    record = fronted.rt.index.need_container(container).record
    assert record.resources is not None
    assert record.resources.unified == {"memory.high": "30", "memory.low": "20"}
    assert fronted.rt.index.need_container(container).live.resources.cpu_shares != 77
    await fronted.check_consistent()
