"""A CRI client without generated service classes: one method per RPC, made from the descriptor.

    with CRIClient("unix:///run/crishim/crishim.sock") as client:
        sandbox_id = client.RunPodSandbox(pb.RunPodSandboxRequest(config=…), timeout=60).pod_sandbox_id

Blocking and for coroutines (`AsyncCRIClient`, `await client.RunPodSandbox(…)`). RPCs that answer with a stream return
an iterator. Failures are grpc's own (`grpc.RpcError`, with `code()` and `details()`).
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import grpc
from google.protobuf.message_factory import GetMessageClass

from crishim.cri.v1 import runtime_pb2 as pb

if TYPE_CHECKING:
    from google.protobuf.message import Message

MESSAGE_LIMIT = 16 << 20
"""Bytes of a message, both ways, as kubelets use it."""

_OPTIONS = (("grpc.max_receive_message_length", MESSAGE_LIMIT), ("grpc.max_send_message_length", -1))
RPCS = {
    method.name: (f"/{service.full_name}/{method.name}", method)
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
"""Name of each RPC to its path on the wire and its descriptor."""


class _Methods:
    """One attribute per RPC; calling it takes the request and `timeout` in seconds."""

    _channel: grpc.Channel | grpc.aio.Channel

    def __getattr__(self, name: str) -> Any:
        if name not in RPCS:
            raise AttributeError(f"CRI v1 has no RPC {name!r}")
        path, method = RPCS[name]
        make = self._channel.unary_stream if method.server_streaming else self._channel.unary_unary
        call = make(
            path, request_serializer=_serialize, response_deserializer=GetMessageClass(method.output_type).FromString
        )
        setattr(self, name, call)
        return call


class CRIClient(_Methods):
    """A connection for threads. Closed at the end of its `with` block, or by `close`."""

    def __init__(self, endpoint: str) -> None:
        """`endpoint` is `unix://` and an absolute path."""
        self._channel: grpc.Channel = grpc.insecure_channel(endpoint, options=_OPTIONS)

    def close(self) -> None:
        """Close the connection; calls under way fail as cancelled."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncCRIClient(_Methods):
    """A connection for one event loop. Closed at the end of its `async with` block, or by `close`."""

    def __init__(self, endpoint: str) -> None:
        """`endpoint` is `unix://` and an absolute path."""
        self._channel: grpc.aio.Channel = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)

    async def close(self) -> None:
        """Close the connection; calls under way fail as cancelled."""
        await self._channel.close(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _serialize(request: Message | bytes) -> bytes:
    return request if isinstance(request, bytes) else request.SerializeToString()
