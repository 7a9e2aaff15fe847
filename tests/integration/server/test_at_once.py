"""The same thing asked for by many at once: all succeed, and it happens once (traps 37 and 38)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import AsyncCRIClient
from tests.env.images import File, busybox
from tests.env.registry import Registry
from tests.integration.server.pods import EXITED, NOTREADY, READY, Pod, listed_states, make_container, make_pod
from tests.integration.server.serving import CALL, CrishimServer, code

pytestmark = pytest.mark.engine
MANY = 10


async def all_at_once(server: CrishimServer, rpc: str, request: Any, count: int = MANY) -> Sequence[Any]:
    """So many calls, each of a connection of its own; the answers, or errors as values."""
    clients = [AsyncCRIClient(server.endpoint) for _ in range(count)]
    try:
        calls = [_answer(getattr(client, rpc)(request, timeout=CALL)) for client in clients]
        return await asyncio.gather(*calls, return_exceptions=True)
    finally:
        await asyncio.gather(*(client.close() for client in clients))


async def _answer(call: Any) -> Any:
    return await call


async def test_ends(server: CrishimServer) -> None:
    pod = await asyncio.to_thread(Pod, server)
    stubborn = make_container(command=["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"])
    container_id = await asyncio.to_thread(pod.start, stubborn)
    stops = [
        asyncio.ensure_future(all_at_once(server, "StopContainer", request, 3))
        for request in (pb.StopContainerRequest(container_id=container_id, timeout=n) for n in (600, 1, 600))
    ]
    for answers in await asyncio.gather(*stops):
        assert list(answers) == [pb.StopContainerResponse()] * 3, "the shortest wins"
    assert listed_states(server) == {pod.id: READY, container_id: EXITED}
    remove = pb.RemoveContainerRequest(container_id=container_id)
    assert list(await all_at_once(server, "RemoveContainer", remove)) == [pb.RemoveContainerResponse()] * MANY
    stop = pb.StopPodSandboxRequest(pod_sandbox_id=pod.id)
    assert list(await all_at_once(server, "StopPodSandbox", stop)) == [pb.StopPodSandboxResponse()] * MANY
    assert listed_states(server) == {pod.id: NOTREADY}
    take = pb.RemovePodSandboxRequest(pod_sandbox_id=pod.id)
    assert list(await all_at_once(server, "RemovePodSandbox", take)) == [pb.RemovePodSandboxResponse()] * MANY


async def test_beginnings(server: CrishimServer) -> None:
    """Of one pod, and one container of it, there is one; the others are told that it is there."""
    config = make_pod(server)
    answers = await all_at_once(server, "RunPodSandbox", pb.RunPodSandboxRequest(config=config))
    made = {answer.pod_sandbox_id for answer in answers if not isinstance(answer, BaseException)}
    assert listed_states(server) == dict.fromkeys(made, READY)
    assert len(made) == 1
    _all_told_that_it_exists(answers)
    (sandbox_id,) = made
    request = pb.CreateContainerRequest(pod_sandbox_id=sandbox_id, config=make_container(), sandbox_config=config)
    answers = await all_at_once(server, "CreateContainer", request)
    made = {answer.container_id for answer in answers if not isinstance(answer, BaseException)}
    assert len(made) == 1
    _all_told_that_it_exists(answers)
    (container_id,) = made
    start = pb.StartContainerRequest(container_id=container_id)
    assert list(await all_at_once(server, "StartContainer", start)) == [pb.StartContainerResponse()] * MANY


def _all_told_that_it_exists(answers: Sequence[Any]) -> None:
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    assert len(errors) == len(answers) - 1
    assert {code(error) for error in errors} == {grpc.StatusCode.ALREADY_EXISTS}


async def test_images(server: CrishimServer, registry: Registry) -> None:
    for round_ in range(3):
        image = busybox().with_files(File("at-once", str(round_).encode()))
        await asyncio.to_thread(registry.push, image, "at-once/image:1")
        spec = pb.ImageSpec(image=registry.ref("at-once/image:1"))
        answers = await all_at_once(server, "PullImage", pb.PullImageRequest(image=spec))
        assert len({answer.image_ref for answer in answers}) == 1
        removed = await all_at_once(server, "RemoveImage", pb.RemoveImageRequest(image=spec))
        assert list(removed) == [pb.RemoveImageResponse()] * MANY
        status = await asyncio.to_thread(server.client.ImageStatus, pb.ImageStatusRequest(image=spec), CALL)
        assert not status.HasField("image")
