"""The RPCs of processes and connections: ExecSync, and those whose answer is a URL of the streaming server."""

from __future__ import annotations

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.errors import Unimplemented
from crishim.model.streams import WantedStreams
from crishim.rpc.framing import field_head
from crishim.rpc.served import Served
from crishim.runtime.container_attach import prepare_attach
from crishim.runtime.container_exec import prepare_exec
from crishim.runtime.container_exec_sync import exec_sync as run_exec_sync
from crishim.runtime.sandbox_port_forward import prepare_port_forward
from crishim.streaming.api import SessionURLs

_STDOUT = pb.ExecSyncResponse.STDOUT_FIELD_NUMBER
_STDERR = pb.ExecSyncResponse.STDERR_FIELD_NUMBER


async def exec_sync(served: Served, request: pb.ExecSyncRequest) -> bytes:
    """ExecSync; `timeout` in seconds, 0 is none. The answer is put together by hand: it can be 16 MiB."""
    result = await run_exec_sync(served.runtime, request.container_id, tuple(request.cmd), request.timeout)
    parts: list[bytes | bytearray] = [pb.ExecSyncResponse(exit_code=result.exit_code).SerializeToString()]
    for number, output in ((_STDOUT, result.stdout), (_STDERR, result.stderr)):
        if output:
            parts += field_head(number, len(output)), output
    return b"".join(parts)


async def exec_(served: Served, request: pb.ExecRequest) -> pb.ExecResponse:
    """Exec."""
    process = prepare_exec(served.runtime, request.container_id, tuple(request.cmd), _wanted(request))
    return pb.ExecResponse(url=_sessions(served).exec(process))


async def attach(served: Served, request: pb.AttachRequest) -> pb.AttachResponse:
    """Attach."""
    process = prepare_attach(served.runtime, request.container_id, _wanted(request))
    return pb.AttachResponse(url=_sessions(served).attach(process))


async def port_forward(served: Served, request: pb.PortForwardRequest) -> pb.PortForwardResponse:
    """PortForward."""
    forward = prepare_port_forward(served.runtime, request.pod_sandbox_id, request.port)
    return pb.PortForwardResponse(url=_sessions(served).port_forward(forward))


def _wanted(request: pb.ExecRequest | pb.AttachRequest) -> WantedStreams:
    return WantedStreams(tty=request.tty, stdin=request.stdin, stdout=request.stdout, stderr=request.stderr)


def _sessions(served: Served) -> SessionURLs:
    if served.sessions is None:
        raise Unimplemented("this server has no streaming server")
    return served.sessions
