"""What no caller should send, over real gRPC: the contract's code, and nothing left (traps 23 and 43)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc.table import TABLE
from crishim.testing.client import RPCS
from tests.env.images import BUSYBOX_REF
from tests.integration.server.pods import (
    CREATED,
    EXITED,
    Pod,
    container_status,
    linux,
    listed_states,
    make_container,
    make_pod,
    pod_linux,
)
from tests.integration.server.serving import CALL, CrishimServer, code, text

pytestmark = pytest.mark.engine
INVALID, NOT_FOUND = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
PRECONDITION, EXISTS = grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ALREADY_EXISTS
OK = None
UNKNOWN_ID = "0123456789abcdef" * 4
_STRANGE: Any = 17
"""In no enumeration of CRI."""


def call(server: CrishimServer, rpc: str, request: Any = b"") -> grpc.StatusCode | None:
    """The code of a call, which comes with words; None when it succeeds."""
    try:
        answer = getattr(server.client, rpc)(request, timeout=LISTENED if rpc in ENDLESS else CALL)
        if RPCS[rpc][1].server_streaming:
            list(answer)  # a stream fails when it is read
    except grpc.RpcError as error:
        if rpc in ENDLESS and code(error) is grpc.StatusCode.DEADLINE_EXCEEDED:
            return OK
        if not text(error):
            raise
        return code(error)
    return OK


def refusal(server: CrishimServer, rpc: str, request: Any) -> tuple[grpc.StatusCode, str]:
    """The code of a call that fails, and how its text begins: with the path of the field that is wrong."""
    with pytest.raises(grpc.RpcError) as caught:
        getattr(server.client, rpc)(request, timeout=CALL)
    return code(caught.value), text(caught.value)[: len("config.")]


ENDLESS = {"GetContainerEvents"}
"""Those that end with their caller only."""
LISTENED = 1.0
"""Seconds after which one that has not failed is taken for good."""
EMPTY: dict[str, grpc.StatusCode | None] = {
    **dict.fromkeys(("Version", "Status", "RuntimeConfig", "UpdateRuntimeConfig", "ImageFsInfo"), OK),
    **dict.fromkeys(("ListPodSandbox", "ListContainers", "ListImages"), OK),
    **dict.fromkeys(("StreamPodSandboxes", "StreamContainers", "StreamImages", "GetContainerEvents"), OK),
    **dict.fromkeys(("ListContainerStats", "ListPodSandboxStats", "StreamContainerStats"), OK),
    **dict.fromkeys(("StreamPodSandboxStats", "ListMetricDescriptors", "ListPodSandboxMetrics"), OK),
    "StreamPodSandboxMetrics": OK,
    **dict.fromkeys(("ContainerStats", "PodSandboxStats"), NOT_FOUND),
    **dict.fromkeys(("RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"), INVALID),
    **dict.fromkeys(("StopContainer", "RemoveContainer", "PullImage", "RemoveImage", "ImageStatus"), INVALID),
    **dict.fromkeys(("PodSandboxStatus", "ContainerStatus", "StartContainer", "UpdateContainerResources"), NOT_FOUND),
    **dict.fromkeys(("ExecSync", "Exec", "Attach", "PortForward"), NOT_FOUND),
    **dict.fromkeys(("UpdatePodSandboxResources", "ReopenContainerLog"), NOT_FOUND),
    "CreateContainer": INVALID,
}
"""What an RPC answers to an empty request. Those that this version does not carry out are not here."""


def test_empty_requests(server: CrishimServer) -> None:
    """And such that are no message at all."""
    pod = Pod(server)
    before = listed_states(server)
    unimplemented = {name for name, (_, handler) in TABLE.items() if handler is None}
    expected = EMPTY | dict.fromkeys(unimplemented, grpc.StatusCode.UNIMPLEMENTED)
    assert expected.keys() == RPCS.keys()
    assert {rpc: call(server, rpc) for rpc in RPCS} == expected
    garbage = {call(server, rpc, b"\xff\xff garbage") for rpc in RPCS}
    assert garbage == {INVALID}
    assert listed_states(server) == before
    assert pod.status().state == pb.SANDBOX_READY


BY_ID = {
    "StopPodSandbox": OK,
    "RemovePodSandbox": OK,
    "PodSandboxStatus": NOT_FOUND,
    "UpdatePodSandboxResources": NOT_FOUND,
    "StopContainer": OK,
    "RemoveContainer": OK,
    "ContainerStatus": NOT_FOUND,
    "StartContainer": NOT_FOUND,
    "UpdateContainerResources": NOT_FOUND,
    "ReopenContainerLog": NOT_FOUND,
    **dict.fromkeys(("ExecSync", "Exec", "Attach", "PortForward"), NOT_FOUND),
}
"""What an RPC answers to an id that is not known."""


def test_ids(server: CrishimServer) -> None:
    """Unknown ones, the other kind's ones, engine names, and prefixes that fit two; nothing is touched."""
    pod = Pod(server)
    containers = [pod.create()]
    sandboxes = [pod.id]
    # Of seventeen ids two begin alike.
    while not (two := _shared_prefix(containers)):
        containers.append(pod.create(make_container(attempt=len(containers))))
    while not (pods := _shared_prefix(sandboxes)):
        sandboxes.append(Pod(server).id)
    before = listed_states(server)
    wrong = {}
    for rpc, expected in BY_ID.items():
        of_pods = "pod_sandbox_id" in RPCS[rpc][1].input_type.fields_by_name
        field, other, shared = (
            ("pod_sandbox_id", containers[0], pods) if of_pods else ("container_id", sandboxes[0], two)
        )
        values = {
            UNKNOWN_ID: expected,
            other: expected,
            f"k8s_POD_{pod.config.metadata.name}_default_uid-{pod.config.metadata.name}_0": expected,
            shared: INVALID,
        }
        for value, code_expected in values.items():
            request = getattr(pb, RPCS[rpc][1].input_type.name)(**{field: value})
            if (found := call(server, rpc, request)) is not code_expected:
                wrong[rpc, value] = found
    assert wrong == {}
    assert listed_states(server) == before


def _shared_prefix(ids: list[str]) -> str:
    """The first character of two of them that begin alike."""
    firsts = [key[0] for key in ids]
    return next((first for first in firsts if firsts.count(first) > 1), "")


BAD_PODS: dict[str, dict[str, Any]] = {
    "no metadata": {"metadata": None},
    "no name": {"metadata": pb.PodSandboxMetadata(uid="u", namespace="n")},
    "no uid": {"metadata": pb.PodSandboxMetadata(name="p", namespace="n")},
    "name with a slash": {"metadata": pb.PodSandboxMetadata(name="a/b", uid="u", namespace="n")},
    "windows": {"windows": pb.WindowsPodSandboxConfig()},
    "hostname too long": {"hostname": "h" * 65},
    "hostname that is none": {"hostname": "Bad Host!"},
    "relative folder of logs": {"log_directory": "logs"},
    "host port mapped twice": {"port_mappings": [pb.PortMapping(container_port=n, host_port=18999) for n in (1, 2)]},
    "dns of two words": {"dns_config": pb.DNSConfig(servers=["1.1.1.1\nevil 1"])},
    "unknown sysctl": {"linux": pod_linux(sysctls={"vm.swappiness": "1"})},
    "net sysctl with host network": {
        "linux": pod_linux(namespace_options=pb.NamespaceOption(network=pb.NODE), sysctls={"net.ipv4.ip_forward": "1"})
    },
    "network of its containers": {"linux": pod_linux(namespace_options=pb.NamespaceOption(network=pb.CONTAINER))},
    "unknown enum": {"linux": pod_linux(namespace_options=pb.NamespaceOption(ipc=_STRANGE))},
    "user namespace of a target": {
        "linux": pod_linux(namespace_options=pb.NamespaceOption(userns_options=pb.UserNamespace(mode=pb.TARGET)))
    },
    "group without user": {"linux": pod_linux(run_as_group=pb.Int64Value(value=1))},
    "user id too high": {"linux": pod_linux(run_as_user=pb.Int64Value(value=1 << 31))},
    "negative user id": {"linux": pod_linux(run_as_user=pb.Int64Value(value=-1))},
    "parent cgroup that leaves": {"linux": pod_linux(cgroup_parent="/a/../..")},
}


def test_bad_pods(server: CrishimServer) -> None:
    found = {
        name: refusal(server, "RunPodSandbox", pb.RunPodSandboxRequest(config=make_pod(server, **changes)))
        for name, changes in BAD_PODS.items()
    }
    assert found == dict.fromkeys(BAD_PODS, (INVALID, "config."))
    assert listed_states(server) == {}


def test_unknown_handler(server: CrishimServer) -> None:
    request = pb.RunPodSandboxRequest(config=make_pod(server), runtime_handler="no-such-runtime")
    assert call(server, "RunPodSandbox", request) is INVALID
    image = pb.ImageSpec(image=BUSYBOX_REF, runtime_handler="no-such-runtime")
    assert call(server, "PullImage", pb.PullImageRequest(image=image)) is INVALID
    told = server.client.Status(pb.StatusRequest(), timeout=CALL).runtime_handlers
    assert {"", "alt"} <= {handler.name for handler in told}
    pod = Pod(server, handler="alt")
    assert pod.status().runtime_handler == "alt"


def _context(**context: Any) -> dict[str, Any]:
    return {"linux": linux(**context)}


def _namespaces(**options: Any) -> dict[str, Any]:
    return _context(namespace_options=pb.NamespaceOption(**options))


def _resources(**resources: Any) -> dict[str, Any]:
    return {"linux": linux(resources=pb.LinuxContainerResources(**resources))}


def _mount(**mount: Any) -> dict[str, Any]:
    return {"mounts": [pb.Mount(**mount)]}


def _profile(**profile: Any) -> dict[str, Any]:
    return _context(seccomp=pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, **profile))


BAD_CONTAINERS: dict[str, dict[str, Any]] = {
    "no metadata": {"metadata": None},
    "no name": {"metadata": pb.ContainerMetadata(attempt=1)},
    "no image": {"image": None},
    "unknown image": {"image": pb.ImageSpec(image="crishim.test/none:1")},
    "windows": {"windows": pb.WindowsContainerConfig()},
    "variable without a name": {"envs": [pb.KeyValue(key="", value=b"x")]},
    "variable with a NUL": {"envs": [pb.KeyValue(key="A", value=b"a\0b")]},
    "log outside": {"log_path": "../../etc/passwd"},
    "mount of nothing": _mount(host_path="/no/such/path", container_path="/a"),
    "mount of a relative path": _mount(host_path="tmp", container_path="/a"),
    "mount to a relative path": _mount(host_path="/tmp", container_path="a"),
    "unknown propagation": _mount(host_path="/tmp", container_path="/a", propagation=_STRANGE),
    "recursive but writable": _mount(host_path="/tmp", container_path="/a", recursive_read_only=True),
    "unknown mount option": _mount(host_path="/tmp", container_path="/a", mount_options=["suid"]),
    "image and path": _mount(host_path="/tmp", container_path="/a", image=pb.ImageSpec(image=BUSYBOX_REF)),
    "device of nothing": {"devices": [pb.Device(host_path="/dev/none", container_path="/dev/x")]},
    "device that is a file": {"devices": [pb.Device(host_path="/etc/passwd", container_path="/dev/x")]},
    "device permissions": {"devices": [pb.Device(host_path="/dev/null", permissions="rx")]},
    "CDI device that is none": {"CDI_devices": [pb.CDIDevice(name="no name")]},
    "privileged in a plain pod": _context(privileged=True),
    "another network than the pod's": _namespaces(network=pb.NODE),
    "another IPC than the pod's": _namespaces(ipc=pb.NODE),
    "target that is unknown": _namespaces(pid=pb.TARGET, target_id=UNKNOWN_ID),
    "target without mode": _namespaces(pid=pb.POD, target_id=UNKNOWN_ID),
    "user and name": _context(run_as_user=pb.Int64Value(value=1), run_as_username="root"),
    "group alone": _context(run_as_group=pb.Int64Value(value=1)),
    "group id too high": _context(supplemental_groups=[1 << 31]),
    "user id too high": _context(run_as_user=pb.Int64Value(value=1 << 31)),
    "user's group id too high": _context(run_as_user=pb.Int64Value(value=1), run_as_group=pb.Int64Value(value=1 << 31)),
    "capability that is none": _context(capabilities=pb.Capability(add_capabilities=["a b"])),
    "seccomp profile missing": _profile(localhost_ref="/no/such/profile"),
    "seccomp profile relative": _profile(localhost_ref="profile.json"),
    "seccomp profile without name": _profile(),
    "seccomp profile that is a folder": _profile(localhost_ref="/tmp"),
    "negative memory": _resources(memory_limit_in_bytes=-5),
    "swap below memory": _resources(memory_limit_in_bytes=64 << 20, memory_swap_limit_in_bytes=1 << 20),
    "OOM score out of range": _resources(oom_score_adj=1001),
    "cpuset of words": _resources(cpuset_cpus="all"),
}


def test_bad_containers(server: CrishimServer) -> None:
    pod = Pod(server)
    found = {}
    for name, changes in BAD_CONTAINERS.items():
        config = make_container(**changes)
        request = pb.CreateContainerRequest(pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config)
        found[name] = refusal(server, "CreateContainer", request)
    expected = dict.fromkeys(BAD_CONTAINERS, (INVALID, "config."))
    assert found == expected | {"unknown image": (NOT_FOUND, "image '")}
    assert list(listed_states(server)) == [pod.id]
    assert not Path("/no/such/path").exists()
    assert Path("/etc/passwd").is_file()


def test_numbers_that_are_none(server: CrishimServer) -> None:
    pod = Pod(server)
    container_id = pod.start()
    assert call(server, "StopContainer", pb.StopContainerRequest(container_id=container_id, timeout=-1)) is INVALID
    limits = pb.LinuxContainerResources(cpu_quota=-2)
    request = pb.UpdateContainerResourcesRequest(container_id=container_id, linux=limits)
    assert call(server, "UpdateContainerResources", request) is INVALID
    request = pb.UpdateContainerResourcesRequest(container_id=container_id, windows=pb.WindowsContainerResources())
    assert call(server, "UpdateContainerResources", request) is INVALID
    cidr = pb.RuntimeConfig(network_config=pb.NetworkConfig(pod_cidr="not a range"))
    assert call(server, "UpdateRuntimeConfig", pb.UpdateRuntimeConfigRequest(runtime_config=cidr)) is INVALID
    assert container_status(server, container_id).state == pb.CONTAINER_RUNNING


def test_messages_too_large(server: CrishimServer) -> None:
    """The limit is 16 MiB: above it the transport says so, below it the request is looked at."""
    big = make_pod(server, annotations={"big": "x" * (20 << 20)})
    assert call(server, "RunPodSandbox", pb.RunPodSandboxRequest(config=big)) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert listed_states(server) == {}
    wide = pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(label_selector={"big": "x" * (15 << 20)}))
    assert call(server, "ListPodSandbox", wide) is OK


def test_texts_on_the_wire_are_short(server: CrishimServer) -> None:
    """They travel in trailers of 8 KB, twice."""
    with pytest.raises(grpc.RpcError) as caught:
        server.client.ContainerStatus(pb.ContainerStatusRequest(container_id="x" * 100_000), timeout=CALL)
    assert code(caught.value) is NOT_FOUND
    assert len(text(caught.value).encode()) <= 2048


def test_names_taken(server: CrishimServer) -> None:
    pod = Pod(server)
    container_id = pod.create()
    assert call(server, "RunPodSandbox", pb.RunPodSandboxRequest(config=pod.config)) is EXISTS
    again = pb.CreateContainerRequest(pod_sandbox_id=pod.id, config=make_container(), sandbox_config=pod.config)
    assert call(server, "CreateContainer", again) is EXISTS
    assert listed_states(server) == {pod.id: pb.SANDBOX_READY, container_id: CREATED}
    other = pod.create(make_container(attempt=1))
    assert other != container_id
    second = Pod(server, make_pod(server, pod.config.metadata.name, attempt=1))
    assert second.create() not in (container_id, other), "names repeat in another attempt of the pod"


def test_stopped_pods_take_no_containers(server: CrishimServer) -> None:
    pod = Pod(server)
    created = pod.create()
    pod.stop()
    pod.stop()
    request = pb.CreateContainerRequest(pod_sandbox_id=pod.id, config=make_container("late"))
    assert call(server, "CreateContainer", request) is PRECONDITION
    assert call(server, "StartContainer", pb.StartContainerRequest(container_id=created)) is PRECONDITION
    assert listed_states(server) == {pod.id: pb.SANDBOX_NOTREADY, created: CREATED}


@pytest.mark.parametrize(
    ("command", "reason", "exit_code"),
    [
        (["/no/such/program"], "ContainerCannotRun", 127),
        (["/etc/passwd"], "ContainerCannotRun", 126),
    ],
    ids=["missing", "not executable"],
)
def test_start_failure(server: CrishimServer, command: list[str], reason: str, exit_code: int) -> None:
    """EXITED in the list and in the status alike, with reason, code and times."""
    pod = Pod(server)
    container_id = pod.create(make_container(command=command))
    assert call(server, "StartContainer", pb.StartContainerRequest(container_id=container_id)) is PRECONDITION
    assert listed_states(server)[container_id] == EXITED
    status = container_status(server, container_id)
    assert (status.state, status.reason, status.exit_code) == (EXITED, reason, exit_code)
    assert command[0] in status.message
    assert status.finished_at >= status.started_at >= status.created_at > 0
    in_pod = server.client.PodSandboxStatus(pb.PodSandboxStatusRequest(pod_sandbox_id=pod.id), timeout=CALL)
    assert [item.state for item in in_pod.containers_statuses] == [EXITED]
    assert call(server, "StartContainer", pb.StartContainerRequest(container_id=container_id)) is PRECONDITION
    assert call(server, "StopContainer", pb.StopContainerRequest(container_id=container_id, timeout=5)) is OK
    assert call(server, "RemoveContainer", pb.RemoveContainerRequest(container_id=container_id)) is OK
