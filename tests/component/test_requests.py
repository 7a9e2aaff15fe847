"""Requests over a real socket, on the simulated engine: what the contract answers to good and bad ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc.table import TABLE
from crishim.testing.client import RPCS
from tests.component.conftest import LIMIT, World, make_container, make_pod

Code = grpc.StatusCode

EMPTY = {name: Code.UNIMPLEMENTED for name, (_, handler) in TABLE.items() if handler is None}
EMPTY |= dict.fromkeys(("Version", "Status", "RuntimeConfig", "UpdateRuntimeConfig", "ImageFsInfo"), Code.OK)
EMPTY |= dict.fromkeys(("ListPodSandbox", "ListContainers", "ListImages"), Code.OK)
EMPTY |= dict.fromkeys(("StreamPodSandboxes", "StreamContainers", "StreamImages"), Code.OK)
EMPTY |= dict.fromkeys(("ListContainerStats", "ListPodSandboxStats"), Code.OK)
EMPTY |= dict.fromkeys(("StreamContainerStats", "StreamPodSandboxStats"), Code.OK)
EMPTY |= dict.fromkeys(("GetContainerEvents", "ListMetricDescriptors"), Code.OK)
EMPTY |= dict.fromkeys(("ListPodSandboxMetrics", "StreamPodSandboxMetrics"), Code.OK)
EMPTY |= dict.fromkeys(("ContainerStats", "PodSandboxStats"), Code.NOT_FOUND)
EMPTY |= dict.fromkeys(("RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"), Code.INVALID_ARGUMENT)
EMPTY |= dict.fromkeys(("CreateContainer", "StopContainer", "RemoveContainer"), Code.INVALID_ARGUMENT)
EMPTY |= dict.fromkeys(("ImageStatus", "PullImage", "RemoveImage"), Code.INVALID_ARGUMENT)
EMPTY |= dict.fromkeys(("PodSandboxStatus", "ContainerStatus", "StartContainer"), Code.NOT_FOUND)
EMPTY |= dict.fromkeys(("UpdateContainerResources", "UpdatePodSandboxResources"), Code.NOT_FOUND)
EMPTY |= dict.fromkeys(("ReopenContainerLog", "ExecSync", "Exec", "Attach", "PortForward"), Code.NOT_FOUND)
"""What each RPC answers to a request without any field."""
ENDLESS = {"GetContainerEvents"}
"""Those that end with their caller only."""


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world


@pytest.fixture
def pod(world: World) -> Iterator[str]:
    """A ready sandbox, removed at the end."""
    sandbox_id = world.run_pod(labels={"app": "web"}, annotations={"annotation.x": "y"})
    yield sandbox_id
    world.client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id), timeout=LIMIT)


@pytest.mark.parametrize("name", sorted(RPCS))
def test_an_empty_request_gets_a_proper_code(world: World, name: str) -> None:
    code = Code.OK
    try:
        answer = getattr(world.client, name)(b"", timeout=LIMIT)
        if name in ENDLESS:
            answer.initial_metadata()  # it is being listened to
            answer.cancel()
        elif RPCS[name][1].server_streaming:
            list(answer)
    except grpc.RpcError as error:
        code = cast(grpc.Call, error).code()
    assert code is EMPTY[name]
    assert world.client.Version(b"", timeout=LIMIT).runtime_name


def test_version_has_all_four_texts(world: World) -> None:
    version = world.client.Version(pb.VersionRequest(version="0.1.0"), timeout=LIMIT)
    assert (version.version, version.runtime_name, version.runtime_api_version) == ("0.1.0", "docker", "v1")
    assert version.runtime_version.count(".") >= 2


def test_status_tells_both_conditions_and_the_default_handler(world: World) -> None:
    answer = world.client.Status(pb.StatusRequest(verbose=True), timeout=LIMIT)
    assert {c.type: c.status for c in answer.status.conditions} == {"RuntimeReady": True, "NetworkReady": True}
    assert answer.runtime_handlers[0].name == ""
    assert answer.HasField("features")
    for value in answer.info.values():
        json.loads(value)
    assert not world.client.Status(pb.StatusRequest(), timeout=LIMIT).info


def test_a_pods_life(world: World, pod: str) -> None:
    container_id = world.create(pod, mounts=[pb.Mount(container_path="/tmp/x", host_path="/etc")], labels={"k": "v"})
    assert world.containers(state=pb.ContainerStateValue(state=pb.CONTAINER_CREATED)) == [container_id]
    world.start(container_id)

    answer = world.client.PodSandboxStatus(pb.PodSandboxStatusRequest(pod_sandbox_id=pod, verbose=True), timeout=LIMIT)
    assert (answer.status.state, answer.status.metadata.name) == (pb.SANDBOX_READY, "web")
    assert dict(answer.status.annotations) == {"annotation.x": "y"}
    assert answer.status.linux.namespaces.HasField("options")
    assert not answer.status.HasField("network")
    assert answer.timestamp == 0
    assert [c.id for c in answer.containers_statuses] == [container_id]
    info = json.loads(answer.info["info"])
    assert (info["sandboxID"], info["config"]["metadata"]["uid"]) == (pod, "uid-web")
    assert info["pid"] > 0

    told = world.client.ContainerStatus(
        pb.ContainerStatusRequest(container_id=container_id[:13], verbose=True), timeout=LIMIT
    )
    assert (told.status.id, told.status.state) == (container_id, pb.CONTAINER_RUNNING)
    assert told.status.image.image == "busybox:latest"
    image = world.client.ImageStatus(pb.ImageStatusRequest(image=told.status.image), timeout=LIMIT).image
    assert told.status.image_ref == told.status.image_id == image.id
    assert [(m.container_path, m.host_path) for m in told.status.mounts] == [("/tmp/x", "/etc")]
    assert told.status.log_path.startswith("/")
    assert told.status.stop_signal == pb.SIGNAL_SIGTERM
    assert told.status.resources.linux.cpu_shares > 0
    assert json.loads(told.info["info"])["sandboxID"] == pod
    assert answer.containers_statuses[0] == told.status

    resources = pb.LinuxContainerResources(memory_limit_in_bytes=64 << 20)
    request = pb.UpdateContainerResourcesRequest(container_id=container_id, linux=resources)
    world.client.UpdateContainerResources(request, timeout=LIMIT)
    told = world.client.ContainerStatus(pb.ContainerStatusRequest(container_id=container_id), timeout=LIMIT)
    assert told.status.resources.linux.memory_limit_in_bytes == 64 << 20
    assert not told.info
    overhead = pb.UpdatePodSandboxResourcesRequest(pod_sandbox_id=pod, resources=resources)
    world.client.UpdatePodSandboxResources(overhead, timeout=LIMIT)

    world.client.StopContainer(pb.StopContainerRequest(container_id=container_id, timeout=0), timeout=LIMIT)
    status = world.client.ContainerStatus(pb.ContainerStatusRequest(container_id=container_id), timeout=LIMIT).status
    assert (status.state, status.exit_code, status.reason) == (pb.CONTAINER_EXITED, 137, "Error")
    assert 0 < status.created_at <= status.started_at <= status.finished_at
    for _ in range(2):
        world.client.StopPodSandbox(pb.StopPodSandboxRequest(pod_sandbox_id=pod), timeout=LIMIT)
    assert world.sandboxes(state=pb.PodSandboxStateValue(state=pb.SANDBOX_NOTREADY)) == [pod]
    for _ in range(2):
        world.client.RemoveContainer(pb.RemoveContainerRequest(container_id=container_id), timeout=LIMIT)
    assert world.failure("ContainerStatus", pb.ContainerStatusRequest(container_id=container_id))[0] is Code.NOT_FOUND


def test_filters_of_lists(world: World, pod: str) -> None:
    other = world.run_pod("db", labels={"app": "db"})
    try:
        first, second = world.create(pod, labels={"k": "1"}), world.create(other, labels={"k": "2"})
        world.start(second)
        running = pb.ContainerStateValue(state=pb.CONTAINER_RUNNING)
        assert set(world.containers()) == {first, second}
        assert world.containers(id=first) == world.containers(id=first[:20]) == [first]
        assert world.containers(pod_sandbox_id=other) == world.containers(state=running) == [second]
        assert world.containers(label_selector={"k": "1"}) == [first]
        assert world.containers(label_selector={"k": "1"}, state=running) == []
        assert world.containers(id="nobody") == world.containers(pod_sandbox_id=first) == []
        assert world.sandboxes(label_selector={"app": "db"}) == world.sandboxes(id=other[:12]) == [other]
        assert set(world.sandboxes(state=pb.PodSandboxStateValue(state=pb.SANDBOX_READY))) == {pod, other}
    finally:
        world.client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=other), timeout=LIMIT)


@pytest.mark.parametrize("rpc", ["StopPodSandbox", "RemovePodSandbox"])
def test_stop_and_remove_of_an_unknown_sandbox_succeed(world: World, rpc: str) -> None:
    getattr(world.client, rpc)(pb.StopPodSandboxRequest(pod_sandbox_id="nobody"), timeout=LIMIT)


@pytest.mark.parametrize("rpc", ["StopContainer", "RemoveContainer"])
def test_stop_and_remove_of_an_unknown_container_succeed(world: World, rpc: str) -> None:
    getattr(world.client, rpc)(pb.StopContainerRequest(container_id="nobody"), timeout=LIMIT)


@pytest.mark.parametrize(
    ("rpc", "request_", "code", "words"),
    [
        ("PodSandboxStatus", pb.PodSandboxStatusRequest(pod_sandbox_id="nobody"), Code.NOT_FOUND, "nobody"),
        ("ContainerStatus", pb.ContainerStatusRequest(container_id="nobody"), Code.NOT_FOUND, "nobody"),
        ("StartContainer", pb.StartContainerRequest(container_id="nobody"), Code.NOT_FOUND, "nobody"),
        (
            "CreateContainer",
            pb.CreateContainerRequest(pod_sandbox_id="nobody", config=make_container()),
            Code.NOT_FOUND,
            "nobody",
        ),
        ("UpdateContainerResources", pb.UpdateContainerResourcesRequest(container_id="x"), Code.NOT_FOUND, "'x'"),
        ("UpdatePodSandboxResources", pb.UpdatePodSandboxResourcesRequest(pod_sandbox_id="x"), Code.NOT_FOUND, "'x'"),
        (
            "UpdateContainerResources",
            pb.UpdateContainerResourcesRequest(container_id="x", windows=pb.WindowsContainerResources()),
            Code.INVALID_ARGUMENT,
            "windows",
        ),
        ("RunPodSandbox", pb.RunPodSandboxRequest(config=pb.PodSandboxConfig()), Code.INVALID_ARGUMENT, "metadata"),
        (
            "RunPodSandbox",
            pb.RunPodSandboxRequest(config=make_pod("unknown-handler"), runtime_handler="kata"),
            Code.INVALID_ARGUMENT,
            "kata",
        ),
        (
            "RunPodSandbox",
            pb.RunPodSandboxRequest(config=make_pod(windows=pb.WindowsPodSandboxConfig())),
            Code.INVALID_ARGUMENT,
            "config.windows",
        ),
        (
            "ListContainers",
            pb.ListContainersRequest(filter=pb.ContainerFilter(state=pb.ContainerStateValue(state=99))),  # type: ignore[arg-type]
            Code.INVALID_ARGUMENT,
            "filter.state",
        ),
        ("ListPodSandbox", b"\xff", Code.INVALID_ARGUMENT, "ListPodSandboxRequest"),
    ],
)
def test_bad_input_gets_its_code_and_leaves_nothing(
    world: World, rpc: str, request_: Any, code: grpc.StatusCode, words: str
) -> None:
    got, text = world.failure(rpc, request_)
    assert got is code, text
    assert words in text
    assert world.sandboxes() == world.containers() == []


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"metadata": None}, "metadata"),
        ({"metadata": pb.ContainerMetadata()}, "metadata"),
        ({"image": None}, "image"),
        ({"mounts": [pb.Mount(container_path="/x", host_path="/does/not/exist")]}, "/does/not/exist"),
        ({"windows": pb.WindowsContainerConfig()}, "config.windows"),
        ({"envs": [pb.KeyValue(key="K", value=b"\xff")]}, "config.envs[0].value"),
        ({"stop_signal": 4711}, "config.stop_signal"),
    ],
)
def test_a_bad_container_is_refused_and_leaves_nothing(
    world: World, pod: str, config: dict[str, Any], words: str
) -> None:
    request = pb.CreateContainerRequest(pod_sandbox_id=pod, config=make_container(**config))
    code, text = world.failure("CreateContainer", request)
    assert code is Code.INVALID_ARGUMENT, text
    assert words in text
    assert world.containers() == []


def test_an_image_that_is_not_there_is_no_reason_to_create_anything(world: World, pod: str) -> None:
    missing = make_container(image=pb.ImageSpec(image="nowhere/nothing:1"))
    request = pb.CreateContainerRequest(pod_sandbox_id=pod, config=missing)
    assert world.failure("CreateContainer", request)[0] is Code.NOT_FOUND
    assert world.containers() == []
    spec = pb.ImageStatusRequest(image=pb.ImageSpec(image="nowhere/nothing:1"))
    assert not world.client.ImageStatus(spec, timeout=LIMIT).HasField("image")


def test_an_ambiguous_prefix_is_refused_and_touches_nothing(world: World) -> None:
    pods = [world.run_pod(f"p{n}") for n in range(17)]  # of 17 ids two begin alike
    try:
        first = next(i[0] for n, i in enumerate(pods) if any(j[0] == i[0] for j in pods[:n]))
        before = world.sandboxes(state=pb.PodSandboxStateValue(state=pb.SANDBOX_READY))
        for rpc in ("PodSandboxStatus", "StopPodSandbox", "RemovePodSandbox"):
            code, text = world.failure(rpc, pb.StopPodSandboxRequest(pod_sandbox_id=first))
            assert code is Code.INVALID_ARGUMENT
            assert "ambiguous" in text
        assert world.sandboxes(state=pb.PodSandboxStateValue(state=pb.SANDBOX_READY)) == before
        assert set(world.sandboxes(id=first)) == {i for i in pods if i[0] == first}
    finally:
        for sandbox_id in pods:
            world.client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id), timeout=LIMIT)


def test_a_message_of_20_mib_is_refused_and_the_server_lives(world: World) -> None:
    code, _ = world.failure("RunPodSandbox", pb.RunPodSandboxRequest(runtime_handler="x" * (20 << 20)))
    assert code is Code.RESOURCE_EXHAUSTED
    assert world.sandboxes() == []


def test_images_are_listed_by_name_and_pulled_and_removed(world: World) -> None:
    spec = pb.ImageSpec(image="example.com/app:1")
    image_id = world.client.PullImage(pb.PullImageRequest(image=spec), timeout=LIMIT).image_ref
    listed = world.client.ListImages(b"", timeout=LIMIT).images
    assert [i.id for i in listed if "example.com/app:1" in i.repo_tags] == [image_id]
    wanted = pb.ListImagesRequest(filter=pb.ImageFilter(image=spec))
    assert [i.id for i in world.client.ListImages(wanted, timeout=LIMIT).images] == [image_id]
    status = world.client.ImageStatus(pb.ImageStatusRequest(image=spec, verbose=True), timeout=LIMIT)
    assert status.image.size > 0
    assert "config" in json.loads(status.info["info"])
    for _ in range(2):
        world.client.RemoveImage(pb.RemoveImageRequest(image=spec), timeout=LIMIT)
    assert len(world.client.ListImages(b"", timeout=LIMIT).images) == len(listed) - 1
    usage = world.client.ImageFsInfo(b"", timeout=LIMIT)
    for one in (*usage.image_filesystems, *usage.container_filesystems):
        assert one.timestamp > 0
        assert one.fs_id.mountpoint.startswith("/")
        assert one.HasField("inodes_used")
