"""The RPCs of pod sandboxes. Each decodes, calls one verb, and encodes."""

from __future__ import annotations

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.model import LinuxContainerResources, PodSandboxConfig, PodSandboxFilter
from crishim.rpc.decode import decode, decode_field
from crishim.rpc.framing import field
from crishim.rpc.info import sandbox_info
from crishim.rpc.required import need_field
from crishim.rpc.selection import select_sandboxes
from crishim.rpc.served import Served
from crishim.runtime.sandbox_check import check_network
from crishim.runtime.sandbox_remove import remove_pod_sandbox
from crishim.runtime.sandbox_run import run_pod_sandbox
from crishim.runtime.sandbox_stop import stop_pod_sandbox
from crishim.runtime.sandbox_update import update_pod_sandbox_resources

_STATUS = pb.PodSandboxStatusResponse.STATUS_FIELD_NUMBER
_CONTAINERS = pb.PodSandboxStatusResponse.CONTAINERS_STATUSES_FIELD_NUMBER


async def run(served: Served, request: pb.RunPodSandboxRequest) -> pb.RunPodSandboxResponse:
    """RunPodSandbox."""
    config = need_field(request, "config", PodSandboxConfig)
    sandbox_id = await run_pod_sandbox(served.runtime, config, request.runtime_handler)
    return pb.RunPodSandboxResponse(pod_sandbox_id=sandbox_id)


async def stop(served: Served, request: pb.StopPodSandboxRequest) -> pb.StopPodSandboxResponse:
    """StopPodSandbox."""
    await stop_pod_sandbox(served.runtime, request.pod_sandbox_id)
    return pb.StopPodSandboxResponse()


async def remove(served: Served, request: pb.RemovePodSandboxRequest) -> pb.RemovePodSandboxResponse:
    """RemovePodSandbox."""
    await remove_pod_sandbox(served.runtime, request.pod_sandbox_id)
    return pb.RemovePodSandboxResponse()


async def status(served: Served, request: pb.PodSandboxStatusRequest) -> bytes:
    """PodSandboxStatus, from ready bytes.  A verbose one asks the pod's network whether all is as it was made.

    `timestamp` stays 0: a kubelet that is told one takes the answer for an event, and forgets init containers that have
    ended.
    """
    served.runtime.link.need_loaded()
    index = served.runtime.index
    sandbox = index.need_sandbox(request.pod_sandbox_id)
    parts = [field(_STATUS, served.sandboxes.status(sandbox))]
    parts += (field(_CONTAINERS, served.containers.status(c)) for c in index.containers_of(sandbox.id))
    if request.verbose:
        network = await check_network(served.runtime, sandbox)
        info = pb.PodSandboxStatusResponse(info=sandbox_info(served.runtime, sandbox, network))
        parts.append(info.SerializeToString())
    return b"".join(parts)


async def list_all(served: Served, request: pb.ListPodSandboxRequest) -> bytes:
    """ListPodSandbox, from ready bytes."""
    served.runtime.link.need_loaded()
    sandboxes = served.runtime.index.sandboxes()
    wanted = decode(request.filter, PodSandboxFilter, at="filter")
    if wanted == PodSandboxFilter():
        return served.sandboxes.all_items(sandboxes)
    return served.sandboxes.items(select_sandboxes(sandboxes, wanted))


async def update_resources(
    served: Served, request: pb.UpdatePodSandboxResourcesRequest
) -> pb.UpdatePodSandboxResourcesResponse:
    """UpdatePodSandboxResources."""
    await update_pod_sandbox_resources(
        served.runtime,
        request.pod_sandbox_id,
        decode_field(request, "overhead", LinuxContainerResources),
        decode_field(request, "resources", LinuxContainerResources),
    )
    return pb.UpdatePodSandboxResourcesResponse()
