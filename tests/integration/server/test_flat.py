"""Pods come and go, and the server stays as it was: memory, descriptors, tasks, children (trap 24)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import AsyncCRIClient
from tests.env.engine import TestEngine
from tests.integration.server.pods import make_container, make_pod
from tests.integration.server.residue import Quiet, assert_nothing_left, assert_store_empty
from tests.integration.server.serving import CALL, CrishimServer

pytestmark = [pytest.mark.engine, pytest.mark.soak]
WORKERS = 4
WARM = 200
"""Cycles after which caches, pools and the allocator's arenas have their size (half a megabyte, measured)."""
GROWTH = 1 << 20
"""Bytes that the server may grow by after that, in however many cycles."""


async def test_flat(new_server: Callable[..., CrishimServer], engine: TestEngine, scaled: Callable[[int], int]) -> None:
    server = new_server()
    await asyncio.to_thread(server.start)
    quiet = Quiet.of(server)
    async with AsyncCRIClient(server.endpoint) as client:
        await cycles(server, client, scaled(WARM))
        before = server.resident()
        await cycles(server, client, max(20, scaled(scaled(2000))))
        growth = server.resident() - before
    print(f"resident {before >> 10} KiB, grown by {growth >> 10} KiB")
    assert growth < GROWTH
    await asyncio.to_thread(assert_nothing_left, server, engine.api, quiet)
    assert server.threads() < 40
    assert server.stop() == 0
    assert_store_empty(server)


async def cycles(server: CrishimServer, client: AsyncCRIClient, count: int) -> None:
    """So many pods, each with one container that is created and removed."""
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            config = make_pod(server)
            made = await client.RunPodSandbox(pb.RunPodSandboxRequest(config=config), timeout=CALL)
            request = pb.CreateContainerRequest(
                pod_sandbox_id=made.pod_sandbox_id, config=make_container(), sandbox_config=config
            )
            container = await client.CreateContainer(request, timeout=CALL)
            await client.ListContainers(pb.ListContainersRequest(), timeout=CALL)
            await client.RemoveContainer(pb.RemoveContainerRequest(container_id=container.container_id), timeout=CALL)
            await client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=made.pod_sandbox_id), timeout=CALL)

    async with asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(work())
