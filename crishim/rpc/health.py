"""gRPC's health service (`grpc.health.v1.Health`), for probes that speak it: Check and Watch.

The empty service is the server itself: SERVING until it is asked to stop, whether or not the engine is there, since to
start the server anew brings no engine back. The services of CRI are SERVING while the engine is connected and read,
too. Both messages are one field with the number 1: a request is on the wire what protobuf's StringValue is, and a
response what its Int32Value is, so that no stubs are needed (docs/decisions/dependencies.md).
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import grpc
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.errors import CRIError, Kind

if TYPE_CHECKING:
    from crishim.rpc.outcome import Outcome
    from crishim.runtime.engine_link import EngineLink

SERVICE = "grpc.health.v1.Health"
SERVER = ""
"""The name that asks for the server as a whole."""
CRI_SERVICES = frozenset(service.full_name for service in pb.DESCRIPTOR.services_by_name.values())


class ServingStatus(enum.IntEnum):
    """grpc.health.v1.HealthCheckResponse.ServingStatus; Watch alone tells of an unknown service by a status."""

    SERVING = 1
    NOT_SERVING = 2
    SERVICE_UNKNOWN = 3


class UnknownService(CRIError):  # noqa: N818 - the noun and what is wrong with it, as all of crishim.errors
    """Check was asked for a service that is not served here."""

    kind = Kind.NOT_FOUND


class Health:
    """The health of a server and its link to the engine."""

    def __init__(self, link: EngineLink) -> None:
        self._link = link
        self._stopping = False
        self._watchers: set[asyncio.Event] = set()
        self._unsubscribe = link.subscribe(self._changed)

    def __repr__(self) -> str:
        return f"<Health {self.status(SERVER).name}, CRI {self.status(min(CRI_SERVICES)).name}>"

    def stop(self) -> None:
        """The server is asked to end: nothing is SERVING any more, and who watches is told so and sent away."""
        self._stopping = True
        self._unsubscribe()
        self._changed()

    def status(self, service: str) -> ServingStatus:
        """Of a service by name."""
        if service not in CRI_SERVICES and service != SERVER:
            return ServingStatus.SERVICE_UNKNOWN
        away = service != SERVER and self._link.error is not None
        return ServingStatus.NOT_SERVING if self._stopping or away else ServingStatus.SERVING

    def handlers(self, outcome: Outcome) -> grpc.GenericRpcHandler[bytes, bytes]:
        """The service's methods, for a gRPC server."""
        check = outcome.unary("health.Check", StringValue, self.check)
        watch = outcome.stream("health.Watch", StringValue, self.watch)
        methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "Check": grpc.unary_unary_rpc_method_handler(check),
            "Watch": grpc.unary_stream_rpc_method_handler(watch),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def check(self, request: StringValue) -> bytes:
        """Check. Raises UnknownService."""
        status = self.status(request.value)
        if status is ServingStatus.SERVICE_UNKNOWN:
            raise UnknownService(f"no service {request.value[:100]!r} is served here")
        return _encode(status)

    async def watch(self, request: StringValue) -> AsyncGenerator[bytes]:
        """Watch: the status now, and each other one as soon as it is one."""
        return self._follow(request.value)

    async def _follow(self, service: str) -> AsyncGenerator[bytes]:
        changed = asyncio.Event()
        self._watchers.add(changed)
        told: ServingStatus | None = None
        try:
            while True:
                changed.clear()
                status = self.status(service)
                if status is not told:
                    told = status
                    yield _encode(status)
                elif self._stopping:
                    return
                else:
                    await changed.wait()
        finally:
            self._watchers.discard(changed)

    def _changed(self) -> None:
        for watcher in self._watchers:
            watcher.set()


def _encode(status: ServingStatus) -> bytes:
    return Int32Value(value=status).SerializeToString()
