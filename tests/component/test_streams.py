"""Streamed lists say what the lists say, on a server in a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import AsyncCRIClient, CRIClient
from crishim.testing.endpoint import serve_endpoint
from tests.component.conftest import LIMIT, World, make_container, make_pod

FEW, MANY = 3, 40


@pytest.fixture(scope="module")
def full(shared_world: World) -> Iterator[World]:
    """A server with pods, containers and images."""
    pods = [shared_world.run_pod(f"pod-{number}", labels={"half": str(number % 2)}) for number in range(4)]
    for number in range(MANY):
        # Annotations so large that a list does not fit in one message of a stream.
        shared_world.create(pods[number % 4], f"c{number}", annotations={"note": "x" * 20_000})
    for container in shared_world.containers()[:FEW]:
        shared_world.start(container)
    yield shared_world
    for pod in pods:
        shared_world.client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=pod), timeout=LIMIT)


def test_containers(full: World) -> None:
    for wanted in (pb.ContainerFilter(), pb.ContainerFilter(state=pb.ContainerStateValue(state=pb.CONTAINER_RUNNING))):
        listed = full.client.ListContainers(pb.ListContainersRequest(filter=wanted), timeout=LIMIT).containers
        messages = list(full.client.StreamContainers(pb.StreamContainersRequest(filter=wanted), timeout=LIMIT))
        assert [c for message in messages for c in message.containers] == list(listed)
        assert (len(messages) > 1) == (len(listed) == MANY)
    assert len(listed) == FEW


def test_sandboxes(full: World) -> None:
    for wanted, count in ((pb.PodSandboxFilter(), 4), (pb.PodSandboxFilter(label_selector={"half": "1"}), 2)):
        listed = full.client.ListPodSandbox(pb.ListPodSandboxRequest(filter=wanted), timeout=LIMIT).items
        (message,) = full.client.StreamPodSandboxes(pb.StreamPodSandboxesRequest(filter=wanted), timeout=LIMIT)
        assert list(message.pod_sandboxes) == list(listed)
        assert len(listed) == count


def test_images(full: World) -> None:
    listed = full.client.ListImages(pb.ListImagesRequest(), timeout=LIMIT).images
    messages = list(full.client.StreamImages(pb.StreamImagesRequest(), timeout=LIMIT))
    assert [image for message in messages for image in message.images] == list(listed)
    assert listed


def test_statistics(full: World) -> None:
    """Of an engine without processes: no figures, and each pod with what is known of it."""
    listed = full.client.ListPodSandboxStats(pb.ListPodSandboxStatsRequest(), timeout=LIMIT).stats
    messages = list(full.client.StreamPodSandboxStats(pb.StreamPodSandboxStatsRequest(), timeout=LIMIT))
    streamed = [stats for message in messages for stats in message.pod_sandbox_stats]
    assert [s.attributes for s in streamed] == [s.attributes for s in listed]
    assert len(listed) == 4
    assert all(stats.HasField("linux") for stats in (*listed, *streamed))
    assert list(full.client.StreamContainerStats(pb.StreamContainerStatsRequest(), timeout=LIMIT)) == []


def test_nothing_to_tell_is_an_empty_stream(full: World) -> None:
    wanted = pb.ContainerFilter(id="none")
    assert list(full.client.StreamContainers(pb.StreamContainersRequest(filter=wanted), timeout=LIMIT)) == []


def test_events_of_a_pods_life(full: World) -> None:
    stream = full.client.GetContainerEvents(pb.GetEventsRequest(), timeout=LIMIT)
    stream.initial_metadata()
    pod = full.run_pod("seen")
    full.client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=pod), timeout=LIMIT)
    events = [next(stream) for _ in range(4)]
    stream.cancel()
    assert [event.container_event_type for event in events] == [0, 1, 2, 3]
    assert {event.container_id for event in events} == {pod}
    assert {event.pod_sandbox_status.metadata.name for event in events} == {"seen"}


def test_a_listener_that_does_not_read() -> None:
    """It is told the newest of each object, and cut off past its bound only; nobody else misses anything."""
    annotations = {"note": "x" * 40_000}
    flags = ["--event-backlog=1MiB", "--metrics-address=127.0.0.1:0"]
    with serve_endpoint(flags=flags) as server, CRIClient(server.endpoint) as client, CRIClient(server.endpoint) as own:
        world = World(server, client)
        slow = own.GetContainerEvents(pb.GetEventsRequest())
        slow.initial_metadata()

        def dropped() -> float:
            (address,) = re.findall(r"metrics at (http://\S+)", server.log_path.read_text())
            with urllib.request.urlopen(address, timeout=LIMIT) as page:
                (value,) = re.findall(r"^crishim_events_dropped_total (\S+)", page.read().decode(), re.MULTILINE)
            return float(value)

        def live(name: str) -> str:
            pod = world.run_pod(name, annotations=annotations)
            client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=pod), timeout=LIMIT)
            return pod

        pods: list[str] = []
        while not dropped():  # once neither the transport nor the backlog has room
            assert len(pods) < 500
            pods.append(live(f"pod-{len(pods)}"))
        last: dict[str, int] = {}
        while last.get(pods[-1]) != pb.CONTAINER_DELETED_EVENT:
            event = next(slow)
            assert last.get(event.container_id, -1) < event.container_event_type, "in order"
            last[event.container_id] = event.container_event_type
        assert last == dict.fromkeys(pods, pb.CONTAINER_DELETED_EVENT)
        assert "a listener reads slowly" in server.log_path.read_text()
        quick = client.GetContainerEvents(pb.GetEventsRequest())
        quick.initial_metadata()
        number = 0
        while "a listener does not read: cut off" not in server.log_path.read_text():
            assert number < 500
            pod = live(f"more-{number}")
            told = [next(quick) for _ in range(4)]
            assert [(e.container_id, e.container_event_type) for e in told] == [(pod, kind) for kind in range(4)]
            number += 1
        with pytest.raises(grpc.RpcError) as caught:
            list(slow)
        assert isinstance(caught.value, grpc.Call)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        quick.cancel()


async def test_pods_come_and_go_for_many_listeners(scaled: Callable[[int], int]) -> None:
    """None is lost, doubled or out of order for anybody, and nothing of it stays in memory."""
    count = scaled(500)
    with serve_endpoint() as server:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(AsyncCRIClient(server.endpoint)) for _ in range(10)]
            streams = [client.GetContainerEvents(pb.GetEventsRequest()) for client in clients]
            for stream in streams:
                await stream.initial_metadata()
            listening = [asyncio.create_task(_read_to(stream, "last")) for stream in streams]
            await _churn(clients, "warm", 25)
            before = _memory(server.pid)
            await _churn(clients, "pod", count)
            grown = _memory(server.pid) - before
            await _live(clients[0], "last")
            async with asyncio.timeout(LIMIT):
                told = await asyncio.gather(*listening)
            for stream in streams:
                stream.cancel()
    assert all(events == told[0] for events in told), "one order for all"
    lives: dict[str, list[int]] = {}
    for _, kind, object_id in told[0]:
        lives.setdefault(object_id, []).append(kind)
    assert set(map(tuple, lives.values())) == {(0, 1, 2, 3)}
    assert len(lives) == 2 * (count + 26)
    times = [time_ for time_, _, _ in told[0]]
    assert times == sorted(set(times))
    assert grown < 8 << 20, "an event is about a kilobyte: all of them would be more"


async def _churn(clients: list[AsyncCRIClient], name: str, count: int) -> None:
    """So many pods, some of them at the same time."""
    numbers = iter(range(count))

    async def work(client: AsyncCRIClient) -> None:
        for number in numbers:
            await _live(client, f"{name}-{number}")

    async with asyncio.TaskGroup() as group:
        for client in clients[:4]:
            group.create_task(work(client))


async def _live(client: AsyncCRIClient, name: str) -> None:
    """A pod with a container, from its making to its removal."""
    config = make_pod(name)
    pod = (await client.RunPodSandbox(pb.RunPodSandboxRequest(config=config), timeout=LIMIT)).pod_sandbox_id
    request = pb.CreateContainerRequest(pod_sandbox_id=pod, config=make_container(), sandbox_config=config)
    container = (await client.CreateContainer(request, timeout=LIMIT)).container_id
    await client.StartContainer(pb.StartContainerRequest(container_id=container), timeout=LIMIT)
    await client.StopContainer(pb.StopContainerRequest(container_id=container), timeout=LIMIT)
    await client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=pod), timeout=LIMIT)


async def _read_to(stream: AsyncIterator[pb.ContainerEventResponse], name: str) -> list[tuple[int, int, str]]:
    """All events up to the end of the pod of this name."""
    told = []
    async for event in stream:
        told.append((event.created_at, int(event.container_event_type), event.container_id))
        status = event.pod_sandbox_status
        ended = event.container_event_type == pb.CONTAINER_DELETED_EVENT and event.container_id == status.id
        if ended and status.metadata.name == name:
            break
    return told


def _memory(pid: int) -> int:
    """Bytes of a process (proc(5), statm)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_server_with_listeners_stops_at_once() -> None:
    with serve_endpoint(flags=["--drain-limit=60"]) as server, CRIClient(server.endpoint) as client:
        streams = [client.GetContainerEvents(pb.GetEventsRequest(), timeout=LIMIT * 2) for _ in range(3)]
        for stream in streams:
            stream.initial_metadata()
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 30, "half of what a call may take"
        for stream in streams:
            assert list(stream) == []


def test_a_bad_filter_is_refused_before_anything_is_told(full: World) -> None:
    wanted = pb.ContainerFilter(state=pb.ContainerStateValue(state=99))  # type: ignore[arg-type]
    stream = full.client.StreamContainers(pb.StreamContainersRequest(filter=wanted), timeout=LIMIT)
    with pytest.raises(grpc.RpcError) as caught:
        next(stream)
    assert isinstance(caught.value, grpc.Call)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
