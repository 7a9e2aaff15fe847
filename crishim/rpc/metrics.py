"""The RPCs of metrics."""

from __future__ import annotations

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc.chunks import Stream, frame_all, stream_items
from crishim.rpc.metrics_messages import make_descriptors
from crishim.rpc.served import Served


async def descriptors(served: Served, request: pb.ListMetricDescriptorsRequest) -> pb.ListMetricDescriptorsResponse:
    """ListMetricDescriptors; the same at all times."""
    return make_descriptors()


async def pods(served: Served, request: pb.ListPodSandboxMetricsRequest) -> bytes:
    """ListPodSandboxMetrics."""
    return b"".join(await _framed(served))


async def stream(served: Served, request: pb.StreamPodSandboxMetricsRequest) -> Stream:
    """StreamPodSandboxMetrics."""
    return stream_items(await _framed(served))


async def _framed(served: Served) -> list[bytes]:
    served.runtime.link.need_loaded()
    return frame_all(served.metrics.encode(await served.stats.metrics()))
