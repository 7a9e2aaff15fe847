"""Reads cost the engine nothing, and none is answered before there is something to tell."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.engine.simulated import Hang
from crishim.errors import EngineUnavailable
from crishim.rpc import containers, images, node, sandboxes
from crishim.rpc.served import Served, serve_from
from crishim.runtime.host import Host
from crishim.runtime.sandbox_stop import stop_pod_sandbox
from tests.usecase.runtime.virtual_time import idle
from tests.usecase.runtime.world import World

Handler = Callable[[Served, Any], Awaitable[Any]]


def reads(sandbox: str, container: str, image: str) -> list[tuple[Handler, Any]]:
    return [
        (sandboxes.list_all, pb.ListPodSandboxRequest()),
        (sandboxes.list_all, pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(id=sandbox[:8]))),
        (sandboxes.status, pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox, verbose=True)),
        (containers.list_all, pb.ListContainersRequest()),
        (containers.list_all, pb.ListContainersRequest(filter=pb.ContainerFilter(pod_sandbox_id=sandbox))),
        (containers.status, pb.ContainerStatusRequest(container_id=container, verbose=True)),
        (images.list_all, pb.ListImagesRequest()),
        (images.status, pb.ImageStatusRequest(image=pb.ImageSpec(image=image))),
    ]


def always() -> list[tuple[Handler, Any]]:
    return [
        (node.status, pb.StatusRequest(verbose=True)),
        (node.version, pb.VersionRequest()),
        (node.runtime_config, pb.RuntimeConfigRequest()),
        (images.fs_info, pb.ImageFsInfoRequest()),
    ]


async def test_no_read_asks_the_engine(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    served = serve_from(world.rt)
    world.engine.calls.clear()
    for handler, request in reads(sandbox, container, "busybox") + always():
        await handler(served, request)
    assert world.engine.calls == {}


async def test_reads_go_on_while_the_engine_is_away(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    served = serve_from(world.rt)
    before = [await handler(served, request) for handler, request in reads(sandbox, container, "busybox")]
    world.engine.go_down()
    await world.until(lambda: world.rt.link.error is not None, 1)
    assert [await handler(served, request) for handler, request in reads(sandbox, container, "busybox")] == before
    for handler, request in always():
        await handler(served, request)
    world.engine.come_back()
    assert await world.rt.link.wait_connected(6)


async def test_nothing_is_told_before_the_engine_was_read_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.start()
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    await world.node.close()
    world.engine.go_down()
    await world.start(connected=False)
    served = serve_from(world.rt)
    for handler, request in reads(sandbox, container, "busybox"):
        with pytest.raises(EngineUnavailable):
            await handler(served, request)
    for handler, request in always():
        await handler(served, request)
    world.engine.come_back()
    assert await world.rt.link.wait_connected(6)
    for handler, request in reads(sandbox, container, "busybox"):
        await handler(served, request)
    await world.check_removable()
    await world.close()


async def test_status_tells_what_the_host_withholds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.node, "_host", Host(oom_floor=-10))
    answer = await node.status(serve_from(world.rt), pb.StatusRequest(verbose=True))
    assert json.loads(answer.info["config"]) == {"stateDir": world.engine.facts.data_root}
    host = json.loads(answer.info["host"])
    assert host["oomScoreAdjFloor"] == -10
    (remark,) = host["remarks"]
    assert "below -10 are raised to it" in remark


async def test_a_verbose_status_tells_whether_the_network_is_as_it_was_made(world: World) -> None:
    """CHECK on demand: only a verbose answer about a pod that is READY asks the plugins, and not for long."""
    sandbox = await world.run()
    served = serve_from(world.rt)

    async def told(verbose: bool = True) -> Any:
        request = pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox, verbose=verbose)
        answer = pb.PodSandboxStatusResponse.FromString(await sandboxes.status(served, request))
        return json.loads(answer.info["info"])["network"] if verbose else None

    assert (await told())["check"] == "ok"
    await told(verbose=False)
    assert world.network.calls["check"] == 1
    address = world.network.ips.pop(sandbox)
    assert "does not hold" in (await told())["check"]
    world.network.ips[sandbox] = address
    world.network.script("check", Hang())
    assert (await told())["check"] == "not known: no answer within 5 s"
    await stop_pod_sandbox(world.rt, sandbox)
    assert await told() is None
    assert world.network.calls["check"] == 3


async def test_a_stop_waits_for_the_plugins_that_are_asked(world: World) -> None:
    """CNI: no two operations on one container at once."""
    sandbox = await world.run()
    request = pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox, verbose=True)
    world.network.script("check", Hang())
    asking = world.background(sandboxes.status(serve_from(world.rt), request))
    await world.network.called("check")
    stopping = world.background(stop_pod_sandbox(world.rt, sandbox))
    await idle()
    assert world.network.calls["detach"] == 0
    await stopping
    answer = pb.PodSandboxStatusResponse.FromString(await asking)
    assert json.loads(answer.info["info"])["network"]["check"] == "not known: no answer within 5 s"
    assert world.network.calls["check"] == 1
    await world.check_removable()
