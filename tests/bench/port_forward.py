"""Port-forward's throughput, against a loop of asyncio that copies between a client and the same port of the pod."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from crishim.cri.v1 import runtime_pb2 as cri
from crishim.network.dial import dial_loopback
from tests.bench.figures import Figure, summarize
from tests.bench.serve import Served
from tests.bench.spdy import Session
from tests.bench.verbs import pod
from tests.env import images
from tests.env.engine import TestEngine
from tests.streaming_client.build import client_path

PORT = 8080
LEAST = 0.9
"""Of the copy loop's throughput."""
_GET = b"GET /data HTTP/1.0\r\n\r\n"


def measure(served: Served, engine: TestEngine, sandbox: str, size: int, rounds: int) -> list[Figure]:
    """One connection that fetches a file from memory, by a client that only counts; and by client-go's."""
    _serve_file(served, sandbox, size)
    namespace = f"/proc/{engine.api.call('GET', f'/containers/{sandbox}/json')['State']['Pid']}/ns/net"
    loop, ours, through = list[float](), list[float](), list[float]()
    with _copying(namespace) as direct:
        for _ in range(rounds):
            loop.append(_fetch(direct, size))
            ours.append(_fetch_by_spdy(_url(served, sandbox), size))
            with _client(_url(served, sandbox)) as port:
                through.append(_fetch(port, size))
    notes = [f"{statistics.median(rates):.0f} MB/s" for rates in (ours, loop, through)]
    ratios = [one / other for one, other in zip(ours, loop, strict=True)]
    note = f"{notes[0]}, the loop {notes[1]}"
    name = "port-forward against a copy loop"
    return [
        summarize(f"{name}, over spdy", ratios, unit="×", least=LEAST, note=note),
        summarize(
            f"{name}, by client-go",
            [one / other for one, other in zip(through, loop, strict=True)],
            unit="×",
            note=f"{notes[2]}, through one process more",
        ),
    ]


def _url(served: Served, sandbox: str) -> str:
    return str(served.client.PortForward(cri.PortForwardRequest(pod_sandbox_id=sandbox)).url)


def _serve_file(served: Served, sandbox: str, size: int) -> None:
    script = f"mkdir /tmp/www; truncate -s {size} /tmp/www/data; exec httpd -f -p 127.0.0.1:{PORT} -h /tmp/www"
    wanted = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="www"),
        image=cri.ImageSpec(image=images.BUSYBOX_REF),
        command=["sh", "-c", script],
    )
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=wanted, sandbox_config=pod(600_000))
    container = served.client.CreateContainer(request).container_id
    served.client.StartContainer(cri.StartContainerRequest(container_id=container))
    listening = cri.ExecSyncRequest(container_id=container, cmd=["grep", "-q", f":{PORT:04X} ", "/proc/net/tcp"])
    while served.client.ExecSync(listening).exit_code:
        time.sleep(0.02)


def _fetch(port: int, size: int) -> float:
    """MB/s of one connection to a port of ours.  Raises RuntimeError when it ends too early."""
    began = time.monotonic()
    count, buffer = 0, bytearray(1 << 18)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(_GET)
        while got := connection.recv_into(buffer):
            count += got
    return _rate(count, size, began)


def _fetch_by_spdy(url: str, size: int) -> float:
    streams = [{"streamtype": kind, "port": str(PORT), "requestid": "0"} for kind in ("error", "data")]
    with Session(url, "portforward.k8s.io", streams) as session:
        began = time.monotonic()
        session.send(3, _GET)
        return _rate(session.read(3), size, began)


def _rate(count: int, size: int, began: float) -> float:
    if count < size:
        raise RuntimeError(f"{count} of {size} bytes came")
    return count / (time.monotonic() - began) / 1e6


@contextlib.contextmanager
def _client(url: str) -> Iterator[int]:
    """client-go's forwarder; its port."""
    command = [str(client_path()), "-transport", "spdy", "forward", url, f"0:{PORT}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


@contextlib.contextmanager
def _copying(namespace: str) -> Iterator[int]:
    """The loop, in a process of its own; its port."""
    command = [sys.executable, "-m", "tests.bench.port_forward", namespace]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


async def _copy_loop(namespace: str) -> None:
    """Copies as asyncio's documentation does: read, write, drain."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found = await dial_loopback(namespace, PORT)
        pod_reader, pod_writer = await asyncio.open_connection(sock=found)
        with contextlib.suppress(ConnectionError):
            there = asyncio.create_task(pass_on(reader, pod_writer))
            await pass_on(pod_reader, writer)
            there.cancel()
        writer.close()
        pod_writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_copy_loop(sys.argv[1]))
