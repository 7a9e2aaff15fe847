"""The RPCs of statistics. Each decodes, calls one verb, and encodes."""

from __future__ import annotations

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.model import ContainerStatsFilter, PodSandboxStatsFilter
from crishim.rpc.decode import decode
from crishim.rpc.served import Served


async def container(served: Served, request: pb.ContainerStatsRequest) -> pb.ContainerStatsResponse:
    """ContainerStats."""
    served.runtime.link.need_loaded()
    return pb.ContainerStatsResponse(stats=served.figures.container(await served.stats.container(request.container_id)))


async def containers(served: Served, request: pb.ListContainerStatsRequest) -> pb.ListContainerStatsResponse:
    """ListContainerStats."""
    served.runtime.link.need_loaded()
    found = await served.stats.containers(decode(request.filter, ContainerStatsFilter, at="filter"))
    return pb.ListContainerStatsResponse(stats=served.figures.containers(found))


async def pod(served: Served, request: pb.PodSandboxStatsRequest) -> pb.PodSandboxStatsResponse:
    """PodSandboxStats."""
    served.runtime.link.need_loaded()
    return pb.PodSandboxStatsResponse(stats=served.figures.pod(await served.stats.pod(request.pod_sandbox_id)))


async def pods(served: Served, request: pb.ListPodSandboxStatsRequest) -> pb.ListPodSandboxStatsResponse:
    """ListPodSandboxStats."""
    served.runtime.link.need_loaded()
    found = await served.stats.pods(decode(request.filter, PodSandboxStatsFilter, at="filter"))
    return pb.ListPodSandboxStatsResponse(stats=served.figures.pods(found))
