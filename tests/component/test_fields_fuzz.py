"""Random requests, made of the messages' descriptors: each is carried out or refused, and nothing breaks or stays."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import grpc
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crishim.cri.v1 import runtime_pb2 as pb
from tests.component.conftest import LIMIT, make_pod
from tests.component.rpc.simulated import Place, simulated_server

Code = grpc.StatusCode
REFUSALS = {Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION, Code.NOT_FOUND}
"""What a request may be answered with that is not carried out."""
WORDS = (
    *("", "a", "0", "0-1", "/", "/a", "/dev/null", "/dev", "/tmp", "/etc/passwd", "../x", "\0", "x" * 5000, "Ä\n"),
    *(
        "busybox:latest",
        "runc",
        "localhost/x",
        "localhost//etc/passwd",
        "runtime/default",
        "unconfined",
        "docker/default",
    ),
    *("ALL", "NET_ADMIN", "CAP_KILL", "app", "root", "rwm", "r", "noexec", "vendor.example/class=one", "2MB"),
    *("net.ipv4.ip_forward", "kernel.shmmax", "annotation.x", "io.kubernetes.docker.type"),
)
NUMBERS = (0, 1, -1, 2, 7, 1000, 1001, -1000, 65_535, 1 << 20, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, -(1 << 63))


def texts() -> st.SearchStrategy[str]:
    """Words that mean something somewhere, and any others that a message can hold."""
    return st.sampled_from(WORDS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@cache
def values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    """Values of one field, whether it is repeated or not; the numbers are within its type."""
    kinds = FieldDescriptor
    if field.message_type is not None:
        return messages(field.message_type)
    if field.enum_type is not None:
        return st.sampled_from([*field.enum_type.values_by_number, 17])
    if field.type == kinds.TYPE_BOOL:
        return st.booleans()
    if field.type == kinds.TYPE_STRING:
        return texts()
    if field.type == kinds.TYPE_BYTES:
        return texts().map(str.encode) | st.binary(max_size=10)
    bits, signed = {
        kinds.TYPE_INT32: (31, True),
        kinds.TYPE_INT64: (63, True),
        kinds.TYPE_UINT32: (32, False),
        kinds.TYPE_UINT64: (64, False),
    }[field.type]
    lowest, highest = -(1 << bits) if signed else 0, (1 << bits) - 1
    return st.sampled_from([n for n in NUMBERS if lowest <= n <= highest]) | st.integers(lowest, highest)


@cache
def messages(descriptor: Descriptor) -> st.SearchStrategy[Any]:
    """Messages with few fields each, so that many of them are carried out."""
    fields = list(descriptor.fields)
    some = st.lists(st.sampled_from(fields), max_size=min(len(fields), 4), unique_by=lambda field: field.name)

    @st.composite
    def build(draw: st.DrawFn) -> Any:
        message = getattr(pb, descriptor.name)()
        for field in draw(some):
            _fill(draw, message, field)
        return message

    return build()


def _fill(draw: st.DrawFn, message: Any, field: FieldDescriptor) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        getattr(message, field.name).update(draw(st.dictionaries(texts(), texts(), max_size=3)))
    elif field.is_repeated:
        getattr(message, field.name).extend(draw(st.lists(values(field), max_size=3)))
    elif field.message_type is not None:
        getattr(message, field.name).CopyFrom(draw(values(field)))
    else:
        setattr(message, field.name, draw(values(field)))


@st.composite
def containers(draw: st.DrawFn) -> pb.ContainerConfig:
    """Configs of containers, most of which have a name and an image."""
    config: pb.ContainerConfig = draw(messages(pb.ContainerConfig.DESCRIPTOR))
    if draw(st.integers(0, 9)):
        config.metadata.name, config.image.image = "main", "busybox:latest"
        config.image.ClearField("runtime_handler")
    return config


@st.composite
def pods(draw: st.DrawFn) -> pb.PodSandboxConfig:
    """Configs of pods, all with a name."""
    config: pb.PodSandboxConfig = draw(messages(pb.PodSandboxConfig.DESCRIPTOR))
    config.metadata.CopyFrom(pb.PodSandboxMetadata(name="p", uid="u", namespace="n"))
    config.log_directory = ""
    return config


async def attempt(place: Place, rpc: str, request: Message) -> tuple[Code, Any]:
    """Code and answer, or text, of a call."""
    try:
        return Code.OK, await getattr(place.client, rpc)(request, timeout=LIMIT)
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details()


async def try_container(place: Place, sandbox_id: str, config: pb.ContainerConfig) -> Code:
    """Create it, look at it, remove it."""
    request = pb.CreateContainerRequest(pod_sandbox_id=sandbox_id, config=config)
    code, answer = await attempt(place, "CreateContainer", request)
    if code is Code.OK:
        found = pb.ContainerStatusRequest(container_id=answer.container_id, verbose=True)
        told = await place.client.ContainerStatus(found, timeout=LIMIT)
        assert dict(told.status.labels) == dict(config.labels)
        assert dict(told.status.annotations) == dict(config.annotations)
        removal = pb.RemoveContainerRequest(container_id=answer.container_id)
        await place.client.RemoveContainer(removal, timeout=LIMIT)
    else:
        assert code in REFUSALS, (code, answer)
        assert answer, "a refusal without words"
    assert [container.id for container in place.engine.containers] == [sandbox_id]
    return code


async def try_pod(place: Place, sandbox_id: str, config: pb.PodSandboxConfig) -> Code:
    """Run it and remove it."""
    code, answer = await attempt(place, "RunPodSandbox", pb.RunPodSandboxRequest(config=config))
    if code is Code.OK:
        found = pb.PodSandboxStatusRequest(pod_sandbox_id=answer.pod_sandbox_id, verbose=True)
        told = await place.client.PodSandboxStatus(found, timeout=LIMIT)
        assert dict(told.status.annotations) == dict(config.annotations)
        removal = pb.RemovePodSandboxRequest(pod_sandbox_id=answer.pod_sandbox_id)
        await place.client.RemovePodSandbox(removal, timeout=LIMIT)
    else:
        assert code in REFUSALS, (code, answer)
        assert answer, "a refusal without words"
    assert [container.id for container in place.engine.containers] == [sandbox_id]
    return code


def test_random_requests(scaled: Callable[[int], int]) -> None:
    """No INTERNAL, no crash, nothing left: 10,000 of containers in `make soak`, and half as many of pods."""
    soak = scaled(10_000) == 10_000
    codes: Counter[Code] = Counter()
    with asyncio.Runner() as runner:
        context = simulated_server(api_version=(1, 48), cdi=True)
        place = runner.run(context.__aenter__())
        try:
            pod = make_pod()
            pod.linux.security_context.privileged = True
            request = pb.RunPodSandboxRequest(config=pod)
            answer = runner.run(_call(place, request))
            sandbox_id = str(answer.pod_sandbox_id)
            check = settings(
                max_examples=10_000 if soak else 200,
                derandomize=not soak,
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            )

            @check
            @given(containers())
            def of_containers(config: pb.ContainerConfig) -> None:
                codes[runner.run(try_container(place, sandbox_id, config))] += 1

            @settings(check, max_examples=5_000 if soak else 100)
            @given(pods())
            def of_pods(config: pb.PodSandboxConfig) -> None:
                codes[runner.run(try_pod(place, sandbox_id, config))] += 1

            of_containers()
            of_pods()
        finally:
            runner.run(context.__aexit__(None, None, None))
    assert codes[Code.OK] > 30, f"most are refused: {codes}"
    assert sum(codes[code] for code in REFUSALS) > 30, f"none is refused: {codes}"


async def _call(place: Place, request: pb.RunPodSandboxRequest) -> Any:
    return await place.client.RunPodSandbox(request, timeout=LIMIT)
