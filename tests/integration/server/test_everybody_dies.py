"""kill -9 of server, engine, and front or runtime, while pods come and go: no container is ever elsewhere."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import AsyncCRIClient
from tests.env import images
from tests.integration.server.fronted import FrontedEngine
from tests.integration.server.places import Places, end_what_the_engine_lost, kill_a_runtime
from tests.integration.server.pods import linux, make_container, make_pod, pod_linux
from tests.integration.server.residue import assert_nothing_left, assert_store_empty, remove_anchors
from tests.integration.server.serving import CALL, CrishimServer
from tests.integration.server.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.soak]
WORKERS = 3
VICTIMS = ("runtime", "server", "engine")
_RUN = pb.IDMapping(container_id=0, host_id=100_000, length=65_536)
_USER = pb.UserNamespace(mode=pb.POD, uids=[_RUN], gids=[_RUN])
_AMBIENT = pb.Capability(add_ambient_capabilities=["NET_BIND_SERVICE"])
"""So that fronts ask at each exec, too."""
KINDS: tuple[pb.NamespaceOption, ...] = (
    pb.NamespaceOption(pid=pb.CONTAINER),
    pb.NamespaceOption(pid=pb.CONTAINER, userns_options=_USER),
    pb.NamespaceOption(pid=pb.POD),
)
"""Anchored, anchored with a user namespace, and with a process."""


@pytest.fixture
def lasting(world_folder: Path) -> Iterator[FrontedEngine]:
    """An engine whose containers outlive it."""
    binaries = os.environ.get("CRISHIM_TEST_ENGINE")
    own = {"live-restore": True}
    with FrontedEngine(world_folder / "tmp" / "lasting", Path(binaries) if binaries else None, config=own) as engine:
        images.busybox().load(engine.api, images.BUSYBOX_REF)
        yield engine
        engine.kill9()  # its containers are its own business: to end it properly takes ten seconds


class Pods:
    """Workers that make pods, start and enter containers, and give a pod up at the first call that fails."""

    def __init__(self, server: CrishimServer, seed: int) -> None:
        self.random = random.Random(seed)
        self.whole = Counter[str]()
        """Pods that came to their end, by what they are."""
        self.answered = Counter[str]()
        """Calls that succeeded, and the others."""
        self.failed = Counter[str]()
        self.done = False
        self._server = server
        self._number = 0

    def went_on(self, answers: int) -> bool:
        """Whether so many calls have succeeded by now."""
        return self.answered.total() >= answers

    async def work(self) -> None:
        """Pods until `done`, with a connection of its own to each life of the server."""
        while not self.done:
            async with AsyncCRIClient(self._server.endpoint) as client:
                with suppress(grpc.RpcError):
                    await self._pod(client)
                    continue
            await asyncio.sleep(0.2)

    async def _call(self, client: AsyncCRIClient, rpc: str, request: Any) -> Any:
        try:
            answer = await getattr(client, rpc)(request, timeout=CALL)
        except grpc.RpcError:
            self.failed[rpc] += 1
            raise
        self.answered[rpc] += 1
        return answer

    async def _pod(self, client: AsyncCRIClient) -> None:
        self._number += 1
        options = self.random.choice(KINDS)
        config = make_pod(self._server, f"dies-{self._number}", linux=pod_linux(namespace_options=options))
        ran = await self._call(client, "RunPodSandbox", pb.RunPodSandboxRequest(config=config))
        sandbox_id = ran.pod_sandbox_id
        for name in ("one", "two")[: self.random.randint(1, 2)]:
            context: dict[str, Any] = {"namespace_options": options}
            if options.pid == pb.CONTAINER and self.random.random() < 0.5:
                context["capabilities"] = _AMBIENT
            container = make_container(name, linux=linux(**context))
            request = pb.CreateContainerRequest(pod_sandbox_id=sandbox_id, config=container, sandbox_config=config)
            container_id = (await self._call(client, "CreateContainer", request)).container_id
            await self._call(client, "StartContainer", pb.StartContainerRequest(container_id=container_id))
            entered = pb.ExecSyncRequest(container_id=container_id, cmd=["sleep", "0.05"], timeout=20)
            await self._call(client, "ExecSync", entered)
        await self._call(client, "StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=sandbox_id))
        await self._call(client, "RemovePodSandbox", pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id))
        self.whole["user" if options.HasField("userns_options") else pb.NamespaceMode.Name(options.pid)] += 1


async def test_nobody_is_ever_elsewhere(
    new_server: Callable[..., CrishimServer], lasting: FrontedEngine, scaled: Callable[[int], int]
) -> None:
    """At the end all that is listed can be removed, and nothing is left."""
    server = new_server(engine_url=lasting.url, embedded=True)
    lasting.ask(server.folder / "run")
    await asyncio.to_thread(server.start)
    pods = Pods(server, seed := random.randrange(1 << 30))
    print(f"seed {seed}")
    with Places(server, lasting) as places:
        async with asyncio.TaskGroup() as workers:
            for _ in range(WORKERS):
                workers.create_task(pods.work())
            try:
                for number in range(scaled(scaled(150))):
                    enough = pods.answered.total() + WORKERS
                    await asyncio.to_thread(until, partial(pods.went_on, enough), "calls that are answered", 60)
                    await asyncio.sleep(pods.random.uniform(0, 0.5))
                    await asyncio.to_thread(_kill, VICTIMS[number % len(VICTIMS)], server, lasting, pods.random)
            finally:
                pods.done = True
        print(f"{pods.whole}, answered {pods.answered}, failed {pods.failed}")
        print(f"{places.looked} looks at processes of {len(places.pods)} pods")
    assert places.pods
    await asyncio.to_thread(server.wait_ready, 60)
    await asyncio.to_thread(until, partial(_removed, server), "all removed", 60)
    assert_nothing_left(server, lasting.api)
    assert server.stop() == 0
    assert_store_empty(server)
    remove_anchors(lasting.api)
    print("lost by the engine:", await asyncio.to_thread(end_what_the_engine_lost, places.ids))


def _removed(server: CrishimServer) -> bool:
    """Remove all that is listed; like a kubelet, again where an engine in whose middle something was killed says no."""
    try:
        server.remove_all()
    except grpc.RpcError as error:
        print(f"to be repeated: {error}")
        return False
    return True


def _kill(victim: str, server: CrishimServer, engine: FrontedEngine, chance: random.Random) -> None:
    if victim == "runtime":
        assert kill_a_runtime(engine, chance, 60), "no runtime was called"
    elif victim == "server":
        server.kill9()
        server.start()
    else:
        engine.kill9()
        engine.start()
        server.wait_ready(60)
