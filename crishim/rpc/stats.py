"""The RPCs of statistics. Each decodes, calls one verb, and encodes. The answers hold nothing but their items."""

from __future__ import annotations

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.model import ContainerStatsFilter, PodSandboxStatsFilter
from crishim.rpc.chunks import frame_all
from crishim.rpc.decode import decode
from crishim.rpc.served import Served


async def container(served: Served, request: pb.ContainerStatsRequest) -> bytes:
    """ContainerStats."""
    served.runtime.link.need_loaded()
    found = await served.stats.container(request.container_id)
    return b"".join(frame_all([served.figures.container(found)]))


async def containers(served: Served, request: pb.ListContainerStatsRequest) -> bytes:
    """ListContainerStats."""
    served.runtime.link.need_loaded()
    found = await served.stats.containers(decode(request.filter, ContainerStatsFilter, at="filter"))
    return b"".join(frame_all(served.figures.containers(found)))


async def pod(served: Served, request: pb.PodSandboxStatsRequest) -> bytes:
    """PodSandboxStats."""
    served.runtime.link.need_loaded()
    found = await served.stats.pod(request.pod_sandbox_id)
    return b"".join(frame_all([served.figures.pod(found)]))


async def pods(served: Served, request: pb.ListPodSandboxStatsRequest) -> bytes:
    """ListPodSandboxStats."""
    served.runtime.link.need_loaded()
    found = await served.stats.pods(decode(request.filter, PodSandboxStatsFilter, at="filter"))
    return b"".join(frame_all(served.figures.pods(found)))
