"""The RPCs that stream a list: what their lists answer, by the same selection, cut into messages.

Each takes its items at once and returns how to read them, so that an error is told before the first message.
"""

from __future__ import annotations

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.model import (
    ContainerFilter,
    ContainerStatsFilter,
    ImageFilter,
    PodSandboxFilter,
    PodSandboxStatsFilter,
)
from crishim.rpc.chunks import Stream, frame_all, stream_items
from crishim.rpc.decode import decode
from crishim.rpc.selection import select_containers, select_sandboxes
from crishim.rpc.served import Served


async def sandboxes(served: Served, request: pb.StreamPodSandboxesRequest) -> Stream:
    """StreamPodSandboxes, from ready bytes."""
    served.runtime.link.need_loaded()
    wanted = decode(request.filter, PodSandboxFilter, at="filter")
    chosen = select_sandboxes(served.runtime.index.sandboxes(), wanted)
    return stream_items(served.sandboxes.each_item(chosen))


async def containers(served: Served, request: pb.StreamContainersRequest) -> Stream:
    """StreamContainers, from ready bytes."""
    served.runtime.link.need_loaded()
    wanted = decode(request.filter, ContainerFilter, at="filter")
    chosen = select_containers(served.runtime.index.containers(), wanted)
    return stream_items(served.containers.each_item(chosen))


async def images(served: Served, request: pb.StreamImagesRequest) -> Stream:
    """StreamImages."""
    served.runtime.link.need_loaded()
    return stream_items(served.images.each_item(decode(request.filter, ImageFilter, at="filter")))


async def container_stats(served: Served, request: pb.StreamContainerStatsRequest) -> Stream:
    """StreamContainerStats."""
    served.runtime.link.need_loaded()
    found = await served.stats.containers(decode(request.filter, ContainerStatsFilter, at="filter"))
    return stream_items(frame_all(served.figures.containers(found)))


async def pod_stats(served: Served, request: pb.StreamPodSandboxStatsRequest) -> Stream:
    """StreamPodSandboxStats."""
    served.runtime.link.need_loaded()
    found = await served.stats.pods(decode(request.filter, PodSandboxStatsFilter, at="filter"))
    return stream_items(frame_all(served.figures.pods(found)))
