"""A client that, like a kubelet, makes and unmakes pods for ever and asks again when a call got no answer.

It knows at each moment what must be true: what it was told and has not asked to end is listed READY or RUNNING under
the very id it was told.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import grpc

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import AsyncCRIClient
from tests.integration.server.pods import READY, RUNNING, linux, make_container, make_pod, pod_linux
from tests.integration.server.serving import CALL, CrishimServer, code

_APART = pb.NamespaceOption(pid=pb.CONTAINER)
UNKNOWN_OUTCOMES = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED)
"""Codes after which a caller knows nothing of what became of the call, and repeats it."""


class GivenUp(Exception):  # noqa: N818 - a caller's decision
    """A call got no answer and is not repeated."""


@dataclass
class Told:
    """What the server has promised and was not yet asked to end."""

    sandboxes: dict[str, str] = field(default_factory=dict)
    """Id to pod name; each is READY."""
    containers: dict[str, str] = field(default_factory=dict)
    """Id to container name; each is RUNNING."""


class Churn:
    """Workers on one server. `call` is how each call is made: a test may put one there that breaks off."""

    def __init__(
        self,
        server: CrishimServer,
        name: str,
        seed: int | None = None,
        *,
        mixed: bool = False,
    ) -> None:
        """`mixed`: some of the pods share their processes and some do not: where the engine has a front, the former
        have one of their own, and the latter have none."""
        self._server = server
        self._name = name
        self._mixed = mixed
        self.call: Callable[[Callable[..., Any], Any], Awaitable[Any]] = _wait_long
        self.repeats = True
        """Whether a call that got no answer is repeated; if not, its pod is given up."""
        self._client: AsyncCRIClient | None = None
        self.alive = asyncio.Event()
        """Whether the workers may call."""
        self.seed = random.randrange(1 << 30) if seed is None else seed
        self.random = random.Random(self.seed)
        self.told = Told()
        self.calls = 0
        self.repeated = 0
        self.failed_starts = 0
        """Of containers that the front could not ask for."""
        self.pods = 0
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def connect(self) -> None:
        """The server is up: workers go on."""
        self._client = AsyncCRIClient(self._server.endpoint)
        self.alive.set()

    def hold(self) -> None:
        """Workers begin no call any more; those under way go on."""
        self.alive.clear()

    async def disconnect(self) -> None:
        """The server is gone: calls fail and workers wait. They have noticed it when this returns."""
        self.hold()
        if self._client is not None:
            await self._client.close()
            self._client = None
        await self._idle.wait()

    async def ask(self, rpc: str, request: Any) -> Any:
        """Make a call until it is answered. Raises grpc.RpcError for an answer that is an error."""
        while True:
            await self.alive.wait()
            if self._client is None:
                continue
            self.calls += 1
            self._under_way += 1
            self._idle.clear()
            try:
                return await self.call(getattr(self._client, rpc), request)
            except asyncio.CancelledError:
                # Raised by grpc.aio, too, when its channel was closed or its call cancelled.
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise
            except grpc.RpcError as error:
                if code(error) not in UNKNOWN_OUTCOMES:
                    raise
            except grpc.aio.UsageError:  # "channel is closed": between our look at it and the call
                pass
            finally:
                self._under_way -= 1
                if not self._under_way:
                    self._idle.set()
            if not self.repeats:
                raise GivenUp
            self.repeated += 1

    # --- one worker

    async def work(self, number: int, enough: Callable[[], bool]) -> None:
        """Pods one after the other until `enough`."""
        life = 0
        while not enough():
            life += 1
            with suppress(GivenUp):
                await self._pod(f"{self._name}-{number}-{life}")
                self.pods += 1

    async def _pod(self, name: str) -> None:
        ports = [pb.PortMapping(host_port=0, container_port=80)]
        apart = self._mixed and self.random.random() < 0.7
        options = pod_linux(namespace_options=_APART) if apart else pod_linux()
        config = make_pod(self._server, name, port_mappings=ports, linux=options)
        sandbox_id = await self._run(config)
        await self.ask("UpdatePodSandboxResources", pb.UpdatePodSandboxResourcesRequest(pod_sandbox_id=sandbox_id))
        containers = [await self._container(sandbox_id, config, f"c{i}") for i in range(self.random.randint(1, 2))]
        for container_id in containers[:1]:
            if self.random.random() < 0.5:
                limits = pb.LinuxContainerResources(cpu_shares=512, memory_limit_in_bytes=64 << 20)
                request = pb.UpdateContainerResourcesRequest(container_id=container_id, linux=limits)
                await self.ask("UpdateContainerResources", request)
            self.told.containers.pop(container_id, None)
            timeout = self.random.choice((0, 5))
            await self.ask("StopContainer", pb.StopContainerRequest(container_id=container_id, timeout=timeout))
            await self.ask("RemoveContainer", pb.RemoveContainerRequest(container_id=container_id))
        for container_id in containers:
            self.told.containers.pop(container_id, None)
        self.told.sandboxes.pop(sandbox_id, None)
        if self.random.random() < 0.8:
            await self.ask("StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=sandbox_id))
        await self.ask("RemovePodSandbox", pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id))
        listed = await self._sandboxes(name)
        assert not listed, f"{name} is listed after its removal"

    async def _run(self, config: pb.PodSandboxConfig) -> str:
        """RunPodSandbox, which succeeds, or answers ALREADY_EXISTS because it did before and nobody heard of it."""
        name = config.metadata.name
        try:
            answer = await self.ask("RunPodSandbox", pb.RunPodSandboxRequest(config=config))
            sandbox_id = str(answer.pod_sandbox_id)
        except grpc.RpcError as error:
            if code(error) is not grpc.StatusCode.ALREADY_EXISTS:
                raise
            ready = [item for item in await self._sandboxes(name) if item.state == READY]
            assert len(ready) == 1, f"ALREADY_EXISTS, but {len(ready)} READY sandboxes of {name}"
            sandbox_id = ready[0].id
        self.told.sandboxes[sandbox_id] = name
        return sandbox_id

    async def _container(self, sandbox_id: str, config: pb.PodSandboxConfig, name: str) -> str:
        own = config.linux.security_context.namespace_options
        asked = make_container(name, linux=linux(namespace_options=own)) if own.pid else make_container(name)
        request = pb.CreateContainerRequest(pod_sandbox_id=sandbox_id, config=asked, sandbox_config=config)
        try:
            container_id = str((await self.ask("CreateContainer", request)).container_id)
        except grpc.RpcError as error:
            if code(error) is not grpc.StatusCode.ALREADY_EXISTS:
                raise
            same = [item for item in await self._containers(sandbox_id) if item.metadata.name == name]
            assert len(same) == 1, f"ALREADY_EXISTS, but {len(same)} containers {name} are listed"
            container_id = same[0].id
        try:
            await self.ask("StartContainer", pb.StartContainerRequest(container_id=container_id))
        except grpc.RpcError as error:
            # Where the front found no server, the start has failed for good: like a kubelet, make another one.
            if not self._mixed or code(error) is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            self.failed_starts += 1
            await self.ask("RemoveContainer", pb.RemoveContainerRequest(container_id=container_id))
            return await self._container(sandbox_id, config, name)
        self.told.containers[container_id] = f"{config.metadata.name}/{name}"
        return container_id

    async def _sandboxes(self, name: str) -> list[Any]:
        listed = await self.ask("ListPodSandbox", pb.ListPodSandboxRequest())
        return [item for item in listed.items if item.metadata.name == name]

    async def _containers(self, sandbox_id: str) -> list[Any]:
        wanted = pb.ContainerFilter(pod_sandbox_id=sandbox_id)
        return list((await self.ask("ListContainers", pb.ListContainersRequest(filter=wanted))).containers)


def broken_promises(told: Told, states: dict[str, int]) -> list[str]:
    """What was told and is not so in the lists."""
    broken = [
        f"sandbox {name} {sandbox_id[:13]} is {_state(states, sandbox_id, pb.PodSandboxState)}"
        for sandbox_id, name in told.sandboxes.items()
        if states.get(sandbox_id) != READY
    ]
    return broken + [
        f"container {name} {container_id[:13]} is {_state(states, container_id, pb.ContainerState)}"
        for container_id, name in told.containers.items()
        if states.get(container_id) != RUNNING
    ]


def _state(states: dict[str, int], object_id: str, names: Any) -> str:
    return str(names.Name(states[object_id])) if object_id in states else "not listed"


async def _wait_long(method: Callable[..., Any], request: Any) -> Any:
    return await method(request, timeout=CALL)
