"""The server on a real socket, with handlers that stand in for the verbs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from crishim.aiokit import steps
from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc.server import Server
from crishim.rpc.table import RUNTIME, TABLE, Handler
from crishim.rpc.unix_socket import ServerSocket
from crishim.testing.client import AsyncCRIClient


@asynccontextmanager
async def serving(
    path: Path, *, sinks: tuple[steps.Sink, ...] = (), limit: float = 0, **handlers: Handler
) -> AsyncIterator[AsyncCRIClient]:
    """A server whose RPCs are these handlers and otherwise unimplemented, and a client of it."""
    table: dict[str, tuple[str, Handler | None]] = {name: (service, None) for name, (service, _) in TABLE.items()}
    table |= {name: (RUNTIME, handler) for name, handler in handlers.items()}
    with ServerSocket(path) as socket:
        server = Server(None, sinks=sinks, table=table)  # type: ignore[arg-type] # the stand-ins use nothing of it
        await server.start(socket)
        try:
            async with AsyncCRIClient(f"unix://{path}") as client:
                yield client
        finally:
            await server.stop(limit)


async def version(served: Any, request: pb.VersionRequest) -> pb.VersionResponse:
    return pb.VersionResponse(version=request.version)
