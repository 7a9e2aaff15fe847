"""GetContainerEvents."""

from __future__ import annotations

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc.chunks import Stream
from crishim.rpc.served import Served


async def listen(served: Served, request: pb.GetEventsRequest) -> Stream:
    """GetContainerEvents; also while the engine is away or was never there: a kubelet tries five times in its life."""
    return served.events.listen()
