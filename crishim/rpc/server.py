"""The gRPC server: both services on one unix socket, methods built from the descriptor and the table."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from crishim.aiokit.steps import Sink
from crishim.cri.v1 import runtime_pb2 as pb
from crishim.errors import Unimplemented
from crishim.rpc.health import Health
from crishim.rpc.outcome import Outcome
from crishim.rpc.served import Served
from crishim.rpc.table import TABLE, Answer, Handler
from crishim.rpc.unix_socket import ServerSocket

log = logging.getLogger(__name__)

MESSAGE_LIMIT = 16 << 20
"""Bytes of a message, both ways: what kubelets use; the library's own limit for receiving is 4 MiB."""

_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
    ("grpc.so_reuseport", 0),
    # Probes of a connection's bandwidth: of no use on a unix socket, and half a percent of a core between calls.
    ("grpc.http2.bdp_probe", 0),
)


class Server:
    """Serves one runtime on one socket."""

    def __init__(
        self,
        served: Served,
        *,
        sinks: Sequence[Sink] = (),
        health: Health | None = None,
        table: Mapping[str, tuple[str, Handler | None]] = TABLE,
    ) -> None:
        """`sinks` get each call's timed steps; `health` is served beside; `table` is what to serve, for tests."""
        self._served = served
        self._outcome = Outcome(sinks)
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers(
            tuple(
                grpc.method_handlers_generic_handler(
                    service.full_name, {m.name: self._method_handler(m, table[m.name][1]) for m in service.methods}
                )
                for service in pb.DESCRIPTOR.services_by_name.values()
            )
        )

        if health is not None:
            self._server.add_generic_rpc_handlers((health.handlers(self._outcome),))

    @property
    def under_way(self) -> Mapping[str, int]:
        """RPC to its calls that have begun and not ended."""
        return self._outcome.under_way

    def _method_handler(self, method: MethodDescriptor, handler: Handler | None) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Requests arrive as bytes and responses leave as bytes: the outcome layer parses and encodes."""
        carry_out = self._bind(method.name, handler)
        request_class = GetMessageClass(method.input_type)
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(self._outcome.stream(method.name, request_class, carry_out))
        return grpc.unary_unary_rpc_method_handler(self._outcome.unary(method.name, request_class, carry_out))

    def _bind(self, name: str, handler: Handler | None) -> Callable[[Message], Awaitable[Answer]]:
        if handler is None:
            return _unimplemented(name)
        served, carry_out = self._served, handler
        return lambda request: carry_out(served, request)

    async def start(self, socket: ServerSocket) -> None:
        """Listen and serve. The socket must be held."""
        with socket.binding():
            self._server.add_insecure_port(f"unix:{socket.path}")
        await self._server.start()

    async def stop(self, limit: float) -> None:
        """Accept no more calls, wait up to `limit` seconds for those under way, then cancel them and wait for them."""
        await self._server.stop(limit)


def _unimplemented(name: str) -> Callable[[Message], Awaitable[Answer]]:
    async def refuse(request: Message) -> Answer:
        raise Unimplemented(f"{name} is not implemented")

    return refuse
