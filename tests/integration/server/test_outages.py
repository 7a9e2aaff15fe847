"""The engine is not there, dies, hangs, comes back: traps 21 and 41."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc.table import TABLE
from crishim.testing.client import RPCS, AsyncCRIClient
from tests.env.engine import TestEngine
from tests.env.images import BUSYBOX_REF, busybox
from tests.integration.server.pods import (
    EXITED,
    NOTREADY,
    READY,
    RUNNING,
    Pod,
    container_status,
    linux,
    listed_states,
    make_container,
    make_pod,
    pod_linux,
    streamed_states,
)
from tests.integration.server.residue import Quiet, assert_nothing_left
from tests.integration.server.serving import CALL, CrishimServer, code
from tests.integration.server.waiting import until

pytestmark = pytest.mark.engine
SOON = 5.0
"""Seconds within which a call fails that needs an engine which is not there: no limit of its own has to pass first, of
which the shortest is longer."""
ANSWERS_ALWAYS = ("Version", "Status", "RuntimeConfig", "ImageFsInfo", "UpdateRuntimeConfig", "ListMetricDescriptors")
LISTENS_ALWAYS = ("GetContainerEvents",)
"""A kubelet tries it five times in its life: it waits for events as long as it takes (test_events.py)."""
NewServer = Callable[..., CrishimServer]


@pytest.fixture
def own_engine(new_engine: Callable[..., TestEngine]) -> Callable[..., TestEngine]:
    """``own_engine(**config)``: an engine with busybox, which may be killed and frozen."""

    def make(**config: Any) -> TestEngine:
        made = new_engine(config=config)
        busybox().load(made.api, BUSYBOX_REF)
        return made

    return make


@pytest.fixture
def tidy(new_server: NewServer) -> Iterator[Callable[[CrishimServer, TestEngine], None]]:
    """``tidy(server, engine)``: after the test all that is listed is removed, and nothing is left."""
    pairs: list[tuple[CrishimServer, TestEngine]] = []
    yield lambda server, engine: pairs.append((server, engine))
    for server, engine in pairs:
        server.remove_all()
        assert_nothing_left(server, engine.api)


def requests() -> dict[str, Any]:
    """A well-formed request of each RPC that this version carries out."""
    image = pb.ImageSpec(image=BUSYBOX_REF)
    given: dict[str, Any] = {
        "RunPodSandbox": pb.RunPodSandboxRequest(
            config=pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="n", uid="u", namespace="d"))
        ),
        "StopPodSandbox": pb.StopPodSandboxRequest(pod_sandbox_id="0"),
        "RemovePodSandbox": pb.RemovePodSandboxRequest(pod_sandbox_id="0"),
        "PodSandboxStatus": pb.PodSandboxStatusRequest(pod_sandbox_id="0"),
        "UpdatePodSandboxResources": pb.UpdatePodSandboxResourcesRequest(pod_sandbox_id="0"),
        "CreateContainer": pb.CreateContainerRequest(pod_sandbox_id="0", config=make_container()),
        "StartContainer": pb.StartContainerRequest(container_id="0"),
        "StopContainer": pb.StopContainerRequest(container_id="0"),
        "RemoveContainer": pb.RemoveContainerRequest(container_id="0"),
        "ContainerStatus": pb.ContainerStatusRequest(container_id="0"),
        "UpdateContainerResources": pb.UpdateContainerResourcesRequest(container_id="0"),
        "ReopenContainerLog": pb.ReopenContainerLogRequest(container_id="0"),
        "ExecSync": pb.ExecSyncRequest(container_id="0", cmd=["true"]),
        "Exec": pb.ExecRequest(container_id="0", cmd=["true"], stdout=True),
        "Attach": pb.AttachRequest(container_id="0", stdout=True),
        "PortForward": pb.PortForwardRequest(pod_sandbox_id="0"),
        "ImageStatus": pb.ImageStatusRequest(image=image),
        "PullImage": pb.PullImageRequest(image=image),
        "RemoveImage": pb.RemoveImageRequest(image=image),
    }
    given |= dict.fromkeys(("ListPodSandbox", "ListContainers", "ListImages"), b"")
    given |= dict.fromkeys(("StreamPodSandboxes", "StreamContainers", "StreamImages"), b"")
    given |= dict.fromkeys(("ContainerStats", "ListContainerStats", "StreamContainerStats"), b"")
    given |= dict.fromkeys(("PodSandboxStats", "ListPodSandboxStats", "StreamPodSandboxStats"), b"")
    return given | dict.fromkeys(("ListPodSandboxMetrics", "StreamPodSandboxMetrics"), b"")


def fails(server: CrishimServer, rpc: str, request: Any = b"", limit: float = CALL) -> grpc.StatusCode:
    """The code with which a call fails."""
    streams = RPCS[rpc][1].server_streaming  # a stream fails when it is read
    with pytest.raises(grpc.RpcError) as caught:
        (list if streams else lambda answer: answer)(getattr(server.client, rpc)(request, timeout=limit))
    return code(caught.value)


def status_is_quick(server: CrishimServer) -> pb.RuntimeCondition:
    """RuntimeReady, told at once."""
    began = time.monotonic()
    condition = server.condition()
    assert time.monotonic() - began < SOON
    return condition


def test_absent_at_start(new_server: NewServer, own_engine: Callable[..., TestEngine], tidy: Any) -> None:
    engine = own_engine()
    server = new_server(engine.url)
    server.start()
    version = server.client.Version(pb.VersionRequest(), timeout=CALL)
    driver = server.client.RuntimeConfig(pb.RuntimeConfigRequest(), timeout=CALL).linux.cgroup_driver
    assert server.stop() == 0
    engine.halt()
    server.start(engine=False)

    condition = status_is_quick(server)
    assert not condition.status
    assert condition.reason == "DockerDaemonNotReady"
    assert str(engine.socket) in condition.message
    last = server.client.Version(pb.VersionRequest(), timeout=CALL)
    assert last == version, "what was last seen, over a restart"
    assert server.client.RuntimeConfig(pb.RuntimeConfigRequest(), timeout=CALL).linux.cgroup_driver == driver
    info = server.client.ImageFsInfo(pb.ImageFsInfoRequest(), timeout=CALL)
    for file_system in (*info.image_filesystems, *info.container_filesystems):
        assert Path(file_system.fs_id.mountpoint).is_dir()
        assert file_system.timestamp > 0
    assert info.image_filesystems
    assert info.container_filesystems
    assert server.client.UpdateRuntimeConfig(b"", timeout=CALL) == pb.UpdateRuntimeConfigResponse()
    for rpc, request in requests().items():
        began = time.monotonic()
        assert fails(server, rpc, request) is grpc.StatusCode.UNAVAILABLE, rpc
        assert time.monotonic() - began < SOON, rpc

    engine.start()
    server.wait_ready()
    tidy(server, engine)
    pod = Pod(server)
    assert pod.say("echo here").startswith("here")


def test_never_seen(new_server: NewServer, tmp_path: Path) -> None:
    """A first start without an engine: nothing is guessed, and what a kubelet needs to come up is answered."""
    server = new_server(f"unix://{tmp_path}/none.sock")
    server.start(engine=False)
    version = server.client.Version(pb.VersionRequest(), timeout=CALL)
    assert all((version.version, version.runtime_name, version.runtime_version, version.runtime_api_version))
    assert not server.client.RuntimeConfig(pb.RuntimeConfigRequest(), timeout=CALL).HasField("linux")
    info = server.client.ImageFsInfo(pb.ImageFsInfoRequest(), timeout=CALL)
    assert Path(info.image_filesystems[0].fs_id.mountpoint).is_dir()
    conditions = server.client.Status(pb.StatusRequest(), timeout=CALL).status.conditions
    assert [(c.type, c.status) for c in conditions] == [("RuntimeReady", False), ("NetworkReady", True)]


@pytest.mark.parametrize("live_restore", [True, False], ids=["live-restore", "no-live-restore"])
def test_killed_and_restarted(
    new_server: NewServer, own_engine: Callable[..., TestEngine], tidy: Any, live_restore: bool
) -> None:
    """Nothing ends because the engine cannot be asked. What ended with it is told when it is back, with its reason."""
    engine = own_engine(**{"live-restore": live_restore})
    server = new_server(engine.url)
    server.start()
    pod = Pod(server)
    container_id = pod.start()
    before = listed_states(server)
    assert before == {pod.id: READY, container_id: RUNNING}

    engine.kill9()
    until(lambda: not status_is_quick(server).status, "RuntimeReady false")
    until(lambda: fails(server, "RunPodSandbox", requests()["RunPodSandbox"]) is grpc.StatusCode.UNAVAILABLE, "failing")
    for _ in range(30):
        assert listed_states(server) == before
        assert container_status(server, container_id).state == RUNNING
        assert pod.status().state == READY
        status_is_quick(server)
    assert fails(server, "StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=pod.id)) is (
        grpc.StatusCode.UNAVAILABLE
    )

    engine.start()
    server.wait_ready()
    if live_restore:
        # The stop that failed has stopped it for good: READY never comes back once somebody wants it gone.
        assert container_status(server, container_id).state == RUNNING
    else:
        until(lambda: listed_states(server) == {pod.id: NOTREADY, container_id: EXITED}, "both ended")
        ended = container_status(server, container_id)
        # Nearly always a signal's; 0 where containerd has forgotten the process by the time that the engine asks it.
        told = engine.api.call("GET", f"/containers/{container_id}/json")["State"]["ExitCode"]
        assert (ended.exit_code, ended.reason) == (told, "Error" if told else "Completed")
        assert ended.finished_at >= ended.started_at > 0
    tidy(server, engine)
    Pod(server).start()


def test_pods_stay_ready_over_an_outage(
    new_server: NewServer, own_engine: Callable[..., TestEngine], tidy: Any
) -> None:
    """With live-restore: states are the same before, during and after it, and after a restart of ours in it.

    Listed and streamed, with statistics of all that runs.
    """
    engine = own_engine(**{"live-restore": True})
    server = new_server(engine.url)
    engine.front_asks(server.desk)
    server.start()
    # With a process, and anchored twice.
    kinds = [pb.NamespaceOption(), *(pb.NamespaceOption(pid=pb.CONTAINER) for _ in range(2))]
    pods = [Pod(server, make_pod(server, linux=pod_linux(namespace_options=kind))) for kind in kinds]
    for pod, kind in zip(pods, kinds, strict=True):
        pod.start(make_container(linux=linux(namespace_options=kind)))
    before = listed_states(server)
    watched = AlwaysSo(server, before)
    with watched:
        engine.restart()
        until(lambda: server.condition().status, "ready again")
        engine.kill9()
        until(lambda: not server.condition().status, "noticed")
        engine.start()
        server.wait_ready()
    engine.halt()
    assert server.stop() == 0
    server.start(engine=False)
    assert fails(server, "ListPodSandbox") is grpc.StatusCode.UNAVAILABLE, "nothing is told before it was read"
    engine.start()
    server.wait_ready()
    assert listed_states(server) == before
    said = [pod.say("echo here", linux=linux(namespace_options=kind)) for pod, kind in zip(pods, kinds, strict=True)]
    assert said == ["here\n"] * 3
    tidy(server, engine)


class AlwaysSo:
    """Asks for lists and streams of all that runs all the time inside the block; every answer must be the expected."""

    def __init__(self, server: CrishimServer, expected: dict[str, int]) -> None:
        self._server, self._expected = server, expected
        self._streamed = expected | {f"stats {name}": state for name, state in expected.items()}
        self.asked = 0

    def __enter__(self) -> AlwaysSo:
        self._stop = threading.Event()
        self._wrong: list[Any] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            try:
                states: Any = [listed_states(self._server), streamed_states(self._server)]
            except grpc.RpcError as error:
                states = error
            self.asked += 1
            if states != [self._expected, self._streamed]:
                self._wrong.append(states)
                return

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._wrong == []
        assert self.asked > 5


async def test_frozen(new_server: NewServer, own_engine: Callable[..., TestEngine]) -> None:
    """It accepts connections and answers nothing. Callers' deadlines hold, memory answers, and all is well after it."""
    engine = await asyncio.to_thread(own_engine)
    server = new_server(engine.url)
    await asyncio.to_thread(server.start)
    pod = await asyncio.to_thread(Pod, server)
    container_id = await asyncio.to_thread(pod.start)
    before = listed_states(server)
    quiet = Quiet.of(server)
    engine.freeze()
    try:
        async with AsyncCRIClient(server.endpoint) as client:
            hanging = [asyncio.ensure_future(_hang(client, server, number)) for number in range(300)]
            calls = 0
            while not all(task.done() for task in hanging) or calls < 20:
                began = time.monotonic()
                await client.Status(pb.StatusRequest(), timeout=CALL)
                await client.Version(pb.VersionRequest(), timeout=CALL)
                await client.ImageFsInfo(pb.ImageFsInfoRequest(), timeout=CALL)
                assert time.monotonic() - began < SOON
                assert await asyncio.to_thread(listed_states, server) == before
                calls += 1
                await asyncio.sleep(0.05)
            answers = [task.result() for task in hanging]
            assert set(answers) <= {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE}, answers
    finally:
        engine.thaw()
    await asyncio.to_thread(server.wait_ready, 60)
    # What hung was begun, as nobody could know; it is undone now.
    await asyncio.to_thread(until, lambda: listed_states(server) == before, "only what was there before", 60)
    assert await asyncio.to_thread(pod.say, "echo here") == "here\n"
    assert container_status(server, container_id).state == RUNNING
    await asyncio.to_thread(server.remove_all)
    # Far fewer than the 300 calls that hung; waiting until the pool has closed the rest takes half a minute.
    await asyncio.to_thread(assert_nothing_left, server, engine.api, quiet, 60)


def test_frozen_for_long(
    new_server: NewServer, own_engine: Callable[..., TestEngine], tidy: Any, scaled: Callable[[int], int]
) -> None:
    """The comparison with the engine's list notices it; then calls fail at once, and states stay as they were."""
    if scaled(100) < 100:
        pytest.skip("takes a minute, in which nothing happens: make soak")
    engine = own_engine()
    server = new_server(engine.url)
    server.start()
    pod = Pod(server)
    before = {pod.id: READY, pod.start(): RUNNING}
    engine.freeze()
    try:
        until(lambda: not status_is_quick(server).status, "RuntimeReady false", 90)
        assert server.condition().reason == "DockerDaemonNotReady"
        began = time.monotonic()
        assert fails(server, "RunPodSandbox", requests()["RunPodSandbox"]) is grpc.StatusCode.UNAVAILABLE
        assert time.monotonic() - began < SOON
        assert listed_states(server) == before
    finally:
        engine.thaw()
    server.wait_ready()
    assert listed_states(server) == before
    tidy(server, engine)


async def _hang(client: AsyncCRIClient, server: CrishimServer, number: int) -> grpc.StatusCode:
    """A call that needs the engine, with a caller's patience of 3 s."""
    request: Any
    if number % 10 == 0:
        request, method = pb.RunPodSandboxRequest(config=make_pod(server, f"hung-{number}")), client.RunPodSandbox
    elif number % 2 == 1:
        image = pb.ImageSpec(image=f"crishim.test/unknown-{number}:1")
        request, method = pb.ImageStatusRequest(image=image), client.ImageStatus
    else:
        image = pb.ImageSpec(image=f"127.0.0.1:1/unknown-{number}:1")
        request, method = pb.PullImageRequest(image=image), client.PullImage
    try:
        await method(request, timeout=3)
    except grpc.RpcError as error:
        return code(error)
    raise AssertionError(f"{request} was answered by an engine that hangs")


def test_every_rpc_is_named() -> None:
    """The tables above leave out only what this version does not carry out."""
    carried_out = {*requests(), *ANSWERS_ALWAYS, *LISTENS_ALWAYS}
    assert carried_out == {name for name, (_, handler) in TABLE.items() if handler is not None}
    assert carried_out <= RPCS.keys()
