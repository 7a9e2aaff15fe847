"""The RPCs of containers. Each decodes, calls one verb, and encodes."""

from __future__ import annotations

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.model import ContainerConfig, ContainerFilter, LinuxContainerResources, PodSandboxConfig
from crishim.rpc.decode import decode, decode_field, refuse_windows
from crishim.rpc.framing import field
from crishim.rpc.info import container_info
from crishim.rpc.required import need_field
from crishim.rpc.selection import select_containers
from crishim.rpc.served import Served
from crishim.runtime.container_create import create_container
from crishim.runtime.container_remove import remove_container
from crishim.runtime.container_reopen_log import reopen_container_log
from crishim.runtime.container_start import start_container
from crishim.runtime.container_stop import stop_container
from crishim.runtime.container_update import update_container_resources

_STATUS = pb.ContainerStatusResponse.STATUS_FIELD_NUMBER


async def create(served: Served, request: pb.CreateContainerRequest) -> pb.CreateContainerResponse:
    """CreateContainer."""
    container_id = await create_container(
        served.runtime,
        request.pod_sandbox_id,
        need_field(request, "config", ContainerConfig),
        decode_field(request, "sandbox_config", PodSandboxConfig),
    )
    return pb.CreateContainerResponse(container_id=container_id)


async def start(served: Served, request: pb.StartContainerRequest) -> pb.StartContainerResponse:
    """StartContainer."""
    await start_container(served.runtime, request.container_id)
    return pb.StartContainerResponse()


async def stop(served: Served, request: pb.StopContainerRequest) -> pb.StopContainerResponse:
    """StopContainer; `timeout` in seconds, 0 kills at once."""
    await stop_container(served.runtime, request.container_id, request.timeout)
    return pb.StopContainerResponse()


async def remove(served: Served, request: pb.RemoveContainerRequest) -> pb.RemoveContainerResponse:
    """RemoveContainer."""
    await remove_container(served.runtime, request.container_id)
    return pb.RemoveContainerResponse()


async def status(served: Served, request: pb.ContainerStatusRequest) -> bytes:
    """ContainerStatus, from ready bytes."""
    served.runtime.link.need_loaded()
    container = served.runtime.index.need_container(request.container_id)
    answer = field(_STATUS, served.containers.status(container))
    if request.verbose:
        answer += pb.ContainerStatusResponse(info=container_info(served.runtime, container)).SerializeToString()
    return answer


async def list_all(served: Served, request: pb.ListContainersRequest) -> bytes:
    """ListContainers, from ready bytes."""
    served.runtime.link.need_loaded()
    containers = served.runtime.index.containers()
    wanted = decode(request.filter, ContainerFilter, at="filter")
    if wanted == ContainerFilter():
        return served.containers.all_items(containers)
    return served.containers.items(select_containers(containers, wanted))


async def reopen_log(served: Served, request: pb.ReopenContainerLogRequest) -> pb.ReopenContainerLogResponse:
    """ReopenContainerLog."""
    await reopen_container_log(served.runtime, request.container_id)
    return pb.ReopenContainerLogResponse()


async def update_resources(
    served: Served, request: pb.UpdateContainerResourcesRequest
) -> pb.UpdateContainerResourcesResponse:
    """UpdateContainerResources. Annotations are for runtimes with plugins and mean nothing here, as CRI allows."""
    refuse_windows(request)
    resources = decode_field(request, "linux", LinuxContainerResources)
    await update_container_resources(served.runtime, request.container_id, resources)
    return pb.UpdateContainerResourcesResponse()
