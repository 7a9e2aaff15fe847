"""The least that a unary call costs here: a grpc.aio server with one method, which answers with nothing.

``python -m tests.bench.bare SOCKET`` serves it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

SERVICE, METHOD = "bare.Service", "Call"
PATH = f"/{SERVICE}/{METHOD}"


async def serve(address: str) -> None:
    """Serve at ``address`` until killed."""
    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(_answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
    server.add_insecure_port(address)
    await server.start()
    await server.wait_for_termination()


async def _answer(request: bytes, context: object) -> bytes:
    return b""


@contextmanager
def serving(folder: Path) -> Iterator[Path]:
    """The socket of such a server, in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    socket = folder / "bare.sock"
    with subprocess.Popen([sys.executable, "-m", "tests.bench.bare", f"unix://{socket}"]) as process:
        try:
            while not socket.exists():
                if process.poll() is not None:
                    raise RuntimeError(f"the bare server ended with status {process.returncode}")
                time.sleep(0.01)
            yield socket
        finally:
            process.kill()


@contextmanager
def calling(socket: Path) -> Iterator[Callable[[], object]]:
    """A function that makes one call to it, by Python's gRPC client."""
    with grpc.insecure_channel(f"unix://{socket}") as channel:
        call = channel.unary_unary(PATH, bytes, bytes)
        yield lambda: call(b"")


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
