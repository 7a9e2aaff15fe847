"""Port-forward over real sockets, by client-go and by channels, into ports of this machine's loopback."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from websockets.asyncio.client import connect

from crishim.streaming.server import StreamingServer
from tests.component.streaming import spdy_by_hand as spdy
from tests.component.streaming.conftest import GoClient, until
from tests.component.streaming.fakes import Forward

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Back what comes; the end, too."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads to the end, and only then answers how much it was."""
    writer.write(b"%d" % len(await reader.read()))
    writer.close()


@contextlib.asynccontextmanager
async def listening(handler: Handler) -> AsyncIterator[int]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    yield int(server.sockets[0].getsockname()[1])
    server.close()


@contextlib.asynccontextmanager
async def forwarding(client: GoClient, *arguments: str, ports: tuple[int, ...]) -> AsyncIterator[list[int]]:
    """The client's own ports for these."""
    async with client.start(*arguments, *(f"0:{port}" for port in ports)) as process:
        assert process.stdout is not None
        yield [int(await asyncio.wait_for(process.stdout.readline(), 20)) for _ in ports]


async def talk(port: int, data: bytes) -> bytes:
    """Send, end, and read to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    writer.write_eof()
    received = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    return received


async def test_many_connections_at_once(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    url = server.port_forward(Forward())
    async with (
        listening(echo) as port,
        listening(answer) as other,
        forwarding(go_client, *transport, "forward", url, ports=(port, other)) as (local, local_other),
    ):
        sent = [os.urandom(100_000 + number) for number in range(50)]
        assert await asyncio.gather(*(talk(local, data) for data in sent)) == sent
        assert await talk(local_other, b"x" * 1_000_000) == b"1000000"


async def test_a_pod_that_is_slow_holds_its_client_up(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    go_on = asyncio.Event()

    async def lazy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        await answer(reader, writer)

    url = server.port_forward(Forward())
    async with (
        listening(lazy) as port,
        forwarding(go_client, *transport, "forward", url, ports=(port,)) as (local,),
    ):
        talking = asyncio.create_task(talk(local, bytes(24 << 20)))
        await until(lambda: any(connection.reading_paused for connection in server._connections))
        go_on.set()
        assert await talking == b"%d" % (24 << 20)


async def test_a_client_that_is_slow_holds_the_pod_up(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    sent = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        for _ in range(64):
            writer.write(bytes(1 << 20))
            await writer.drain()
            sent += 1
        writer.close()

    url = server.port_forward(Forward())
    async with (
        listening(pour) as port,
        forwarding(go_client, *transport, "forward", url, ports=(port,)) as (local,),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", local)
        await until(lambda: any(connection.congested for connection in server._connections))
        assert sent < 64
        assert len(await asyncio.wait_for(reader.read(), 30)) == 64 << 20
        writer.close()


async def test_a_client_that_is_slow_with_many_connections_loses_none(server: StreamingServer) -> None:
    """What waits for it is bounded, and is no reason to drop it when it asks for more meanwhile."""

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readexactly(1)) * (4 << 20))
        writer.close()

    async with listening(pour) as port:
        client = await spdy.dial(server.port_forward(Forward()))

        def open_pair(number: int) -> None:
            for stream, kind in ((4 * number + 1, "error"), (4 * number + 3, "data")):
                client.open(stream, {"streamtype": kind, "port": str(port), "requestid": str(number)})
            client.send(4 * number + 3, bytes([number]))

        for number in range(12):
            open_pair(number)
        (connection,) = server._connections
        most = 0
        for ping in range(1, 200, 2):
            await until(lambda: connection.congested)
            most = max(most, connection._transport.get_write_buffer_size())
            client.ping(ping)
            await client.received(3, size=ping * 4096)
        for number in range(12, 16):
            open_pair(number)
        for number in range(16):
            received = await client.received(4 * number + 3, ended=True)
            assert (len(received), received.count(number)) == (4 << 20, 4 << 20)
            assert await client.received(4 * number + 1, ended=True) == b""
        assert most < 1 << 20
        client.close()


async def test_the_session_ends_with_the_pod(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    forward = Forward()
    url = server.port_forward(forward)
    async with listening(echo) as port, go_client.start(*transport, "forward", url, f"0:{port}") as client:
        assert client.stdout is not None
        local = int(await asyncio.wait_for(client.stdout.readline(), 20))
        reader, writer = await asyncio.open_connection("127.0.0.1", local)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        forward.over.set()
        assert await asyncio.wait_for(reader.read(), 10) == b""
        assert await asyncio.wait_for(client.wait(), 10) == 125  # "lost connection to pod"
        writer.close()


@pytest.mark.parametrize("asked_in", ["request", "query"])
async def test_channels_of_ports_one_of_which_is_refused(server: StreamingServer, asked_in: str) -> None:
    async with listening(echo) as port:
        asked = (port, 1)
        url = server.port_forward(Forward(asked if asked_in == "request" else ()))
        query = f"?port={port}&port=1" if asked_in == "query" else ""
        async with connect(
            "ws" + url.removeprefix("http") + query,
            subprotocols=["v4.channel.k8s.io"],  # type: ignore[list-item]
        ) as client:
            assert [await client.recv() for _ in range(4)] == [
                bytes([channel]) + asked[channel // 2].to_bytes(2, "little") for channel in range(4)
            ]
            refused = await client.recv()
            assert isinstance(refused, bytes)
            assert refused.startswith(b"\x03port 1 of the pod: ")
            await client.send(b"\x00hello")
            assert await client.recv() == b"\x00hello"


async def test_one_refused_port_fails_alone_with_its_reason(server: StreamingServer) -> None:
    """client-go's own client gives all up with the first refusal, so it is SPDY by hand here."""
    async with listening(echo) as port:
        client = await spdy.dial(server.port_forward(Forward()))
        client.open(1, {"streamtype": "error", "port": "1", "requestid": "0"})
        client.open(3, {"streamtype": "data", "port": "1", "requestid": "0"})
        client.open(5, {"streamtype": "error", "port": str(port), "requestid": "1"})
        client.open(7, {"streamtype": "data", "port": str(port), "requestid": "1"})
        client.send(7, b"hello")
        assert (await client.received(1, ended=True)).startswith(b"port 1 of the pod: ")
        assert await client.received(3, ended=True) == b""
        assert await client.received(7, size=5) == b"hello"
        client.send(7, b"", fin=True)
        assert await client.received(7, ended=True) == b"hello"
        assert await client.received(5, ended=True) == b""
        client.close()


async def test_a_connection_that_the_pod_breaks_off_is_no_orderly_end(server: StreamingServer) -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with listening(break_off) as port:
        client = await spdy.dial(server.port_forward(Forward()))
        client.open(1, {"streamtype": "error", "port": str(port), "requestid": "0"})
        client.open(3, {"streamtype": "data", "port": str(port), "requestid": "0"})
        client.send(3, b"x")
        told = await client.received(1, ended=True)
        assert (told.startswith(b"port %d: " % port), b"reset" in told) == (True, True), told
        client.close()


async def test_ports_that_were_not_asked_for_are_refused(server: StreamingServer) -> None:
    client = await spdy.dial(server.port_forward(Forward((80, 81))))
    client.open(1, {"streamtype": "error", "port": "82", "requestid": "0"})
    client.open(3, {"streamtype": "data", "port": "82", "requestid": "0"})
    assert await client.received(1, ended=True) == b"port 82 is not one of those asked for (80, 81)"
    client.close()
