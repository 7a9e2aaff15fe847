"""What the table of fields has as refused is sent, and refused by name; nothing is made of it."""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf import json_format

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.docs.fields import FIELDS, Field, Node
from crishim.errors import Kind
from crishim.testing.client import AsyncCRIClient
from tests.component.conftest import LIMIT, make_container, make_pod
from tests.component.rpc.simulated import simulated_server

RUN = {"host_id": 100_000, "container_id": 0, "length": 65_536}
USERNS = {"uids": [RUN], "gids": [RUN]}
APPARMOR = {"profile_type": "Localhost", "localhost_ref": "mine"}
HUGE = [{"page_size": "2MB", "limit": 2 << 20}]
CONTEXT: dict[str, Any] = {
    "namespace_options.userns_options": USERNS,
    "selinux_options": {"level": "s0:c1"},
    "apparmor": APPARMOR,
}
EXAMPLES: dict[str, Any] = {
    "PodSandboxConfig.windows": {},
    "PodSandboxConfig.linux.security_context.namespace_options.target_id": "c1",
    **{f"PodSandboxConfig.linux.security_context.{path}": value for path, value in CONTEXT.items()},
    "ContainerConfig.windows": {},
    "ContainerConfig.mounts.uidMappings": [RUN],
    "ContainerConfig.mounts.gidMappings": [RUN],
    "ContainerConfig.mounts.recursive_read_only": True,
    "ContainerConfig.mounts.image": {"image": "busybox:latest"},
    "ContainerConfig.mounts.image_sub_path": "etc",
    "ContainerConfig.mounts.mount_options": ["noexec"],
    "ContainerConfig.CDI_devices": [{"name": "vendor.example/class=one"}],
    "ContainerConfig.linux.resources.hugepage_limits": HUGE,
    "ContainerConfig.linux.resources.unified": {"memory.high": "1"},
    "ContainerConfig.linux.security_context.capabilities.add_ambient_capabilities": ["KILL"],
    "ContainerConfig.linux.security_context.apparmor_profile": "localhost/mine",
    **{f"ContainerConfig.linux.security_context.{path}": value for path, value in CONTEXT.items()},
    "UpdateContainerResourcesRequest.windows": {},
    "UpdateContainerResourcesRequest.linux.hugepage_limits": HUGE,
    "UpdateContainerResourcesRequest.linux.unified": {"memory.high": "1"},
}
"""A value for each field that is refused, or may be."""
BESIDE: dict[str, dict[str, Any]] = {
    "ContainerConfig.mounts.uidMappings": {"host_path": "/"},
    "ContainerConfig.mounts.gidMappings": {"host_path": "/"},
    "ContainerConfig.mounts.recursive_read_only": {"host_path": "/", "readonly": True},
    "ContainerConfig.mounts.image": {"readonly": True},
    "ContainerConfig.mounts.image_sub_path": {"readonly": True, "image": {"image": "busybox:latest"}},
    "ContainerConfig.mounts.mount_options": {"host_path": "/"},
}
"""What else a mount has, so that there is nothing else to refuse."""
REFUSED = [f for f in FIELDS if f.refused or f.front or (f.needs is not None and f.needs is not Node.NO_SELINUX)]
"""On this engine: it is old, its runtime has no front, and its kernel has neither AppArmor nor SELinux."""


def request_of(field: Field, sandbox_id: str, container_id: str) -> tuple[str, Any]:
    """The RPC, and its request with a value in the field."""
    message, _, path = field.path.partition(".")
    value = EXAMPLES[field.path]
    name, *rest = path.split(".")
    if name == "mounts":
        rest, name, value = [], name, [{"container_path": "/x", rest[0]: value, **BESIDE[field.path]}]
    for part in reversed(rest):
        value = {part: value}
    if message == "PodSandboxConfig":
        return "RunPodSandbox", pb.RunPodSandboxRequest(config=json_format.ParseDict({name: value}, make_pod("other")))
    if message == "ContainerConfig":
        config = json_format.ParseDict({name: value}, make_container())
        return "CreateContainer", pb.CreateContainerRequest(pod_sandbox_id=sandbox_id, config=config)
    update = pb.UpdateContainerResourcesRequest(container_id=container_id)
    return "UpdateContainerResources", json_format.ParseDict({name: value}, update)


async def test_what_is_refused_is_named() -> None:
    assert EXAMPLES.keys() == {field.path for field in REFUSED}
    async with simulated_server(api_version=(1, 41)) as place:
        client = place.client
        pod = (await client.RunPodSandbox(pb.RunPodSandboxRequest(config=make_pod()), timeout=LIMIT)).pod_sandbox_id
        plain = pb.CreateContainerRequest(pod_sandbox_id=pod, config=make_container("plain"))
        container = (await client.CreateContainer(plain, timeout=LIMIT)).container_id
        before = place.engine.containers
        wrong = {}
        for field in REFUSED:
            assert field.error is not None
            rpc, request = request_of(field, pod, container)
            found = await failure(client, rpc, request)
            expected = Kind(field.error.kind).name
            if not (found[0] == expected and field.path.partition(".")[2].split(".")[-1].split("_")[0] in found[1]):
                wrong[field.path] = (*found, expected)
        assert wrong == {}
        assert place.engine.containers == before
        assert place.engine.calls["update"] == 0


async def failure(client: AsyncCRIClient, rpc: str, request: Any) -> tuple[str, str]:
    """Code and text of a call that fails."""
    try:
        await getattr(client, rpc)(request, timeout=LIMIT)
    except grpc.aio.AioRpcError as error:
        return error.code().name, error.details() or ""
    return "OK", ""
