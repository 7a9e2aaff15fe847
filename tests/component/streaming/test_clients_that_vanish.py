"""Clients that end in any way but the orderly one: noticed, and nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect

from crishim.streaming.connection import Connection
from crishim.streaming.server import StreamingServer, StreamingSettings
from tests.component.streaming.conftest import GoClient, Serve, until
from tests.component.streaming.fakes import Process, cat, pours, sleeps

KEY = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
HEAD = f"Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{KEY}Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that makes close() a reset."""


async def dial(url: str) -> socket.socket:
    """A session's client that is a bare socket."""
    where = urlsplit(url)
    client = socket.socket()
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, (where.hostname, where.port))
    await loop.sock_sendall(client, f"GET {where.path} HTTP/1.1\r\n{HEAD}".encode())
    return client


async def send_more_than_is_taken(client: socket.socket) -> None:
    """Input of which a process in memory takes the first piece, whatever its size."""
    frame = b"\x82\xff" + struct.pack(">Q", 1 << 20) + b"\0\0\0\0" + bytes(1 << 20)
    await asyncio.get_running_loop().sock_sendall(client, frame * 2)


async def ask_for_ever(client: socket.socket) -> None:
    """Pings, and none of their answers read. Raises ConnectionError."""
    pings = (b"\x89\xfd\0\0\0\0" + bytes(125)) * 1000
    while True:
        await asyncio.get_running_loop().sock_sendall(client, pings)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.soak
async def test_attaches_that_are_dropped(server: StreamingServer, scaled: Callable[[int], int]) -> None:
    first = await dial(server.attach(Process(sleeps)))
    first.close()
    await until(lambda: server.idle)
    before = descriptors()
    for _ in range(scaled(1000) // 50 + 1):
        processes = [Process(sleeps) for _ in range(50)]
        clients = [await dial(server.attach(process)) for process in processes]
        running = [await process.started for process in processes]
        for number, client in enumerate(clients):
            if number % 2:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            client.close()
        for streams in running:
            await asyncio.wait_for(streams.closed.wait(), 10)
    await until(lambda: server.idle and descriptors() <= before)


async def test_a_killed_client_ends_its_process(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    process = Process(cat)
    async with go_client.start(*transport, "-stdin", "process", server.exec(process)) as client:
        streams = await asyncio.wait_for(process.started, 10)
        client.kill()
        await asyncio.wait_for(streams.closed.wait(), 10)


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_client_that_goes_while_its_input_is_held_back(serve: Serve, how: str) -> None:
    """Nothing is read from it then, so that the end does not come in with the bytes."""
    server = await serve(StreamingSettings(dead_after=0.8))
    process = Process(sleeps)
    client = await dial(server.exec(process))
    streams = await asyncio.wait_for(process.started, 10)
    await send_more_than_is_taken(client)
    connection = next(iter(server._connections))
    await until(lambda: connection.reading_paused)
    if how == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    client.close()
    await asyncio.wait_for(streams.closed.wait(), 10)


async def test_a_client_that_stops_reading_is_dropped_after_the_idle_limit(serve: Serve) -> None:
    server = await serve(StreamingSettings(idle_limit=0.5))
    process = Process(pours(64 << 20), stdin=False)
    client = await dial(server.exec(process))
    streams = await asyncio.wait_for(process.started, 10)
    await asyncio.wait_for(streams.closed.wait(), 10)
    await until(lambda: server.idle)
    client.close()


async def test_a_client_that_is_quiet_for_less_stays(serve: Serve) -> None:
    server = await serve(StreamingSettings(idle_limit=0.4))
    async with connect("ws" + server.exec(Process(cat)).removeprefix("http"), subprotocols=["v5.channel.k8s.io"]) as ws:  # type: ignore[list-item]
        for _ in range(4):
            await asyncio.sleep(0.2)  # time itself is what is tried here
            await ws.send(b"\0x")
            while await ws.recv() != b"\1x":
                pass


async def test_a_machine_that_does_not_answer_is_dead(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel says of such a client is asserted elsewhere; no packet is lost on loopback."""
    server = await serve(StreamingSettings(dead_after=0.4))
    process = Process(cat)
    client = await dial(server.exec(process))
    streams = await asyncio.wait_for(process.started, 10)
    monkeypatch.setattr(Connection, "looks_dead", lambda self, waited: True)
    await asyncio.wait_for(streams.closed.wait(), 10)
    client.close()


async def test_a_client_that_asks_and_does_not_read_is_dropped(server: StreamingServer) -> None:
    process = Process(sleeps)
    client = await dial(server.exec(process))
    streams = await asyncio.wait_for(process.started, 10)
    with pytest.raises(ConnectionError):
        await asyncio.wait_for(ask_for_ever(client), 30)
    await asyncio.wait_for(streams.closed.wait(), 10)
    client.close()


async def test_pings_of_a_client_whose_input_is_held_back_are_answered_unasked(serve: Serve) -> None:
    server = await serve(StreamingSettings(dead_after=0.4))
    process = Process(sleeps)
    client = await dial(server.exec(process))
    loop = asyncio.get_running_loop()
    await send_more_than_is_taken(client)
    received = b""
    while not received.endswith(b"\x8a\x00\x8a\x00"):
        received += await asyncio.wait_for(loop.sock_recv(client, 1000), 10)
    client.close()


async def test_a_violation_is_told_and_ends_the_process(server: StreamingServer) -> None:
    process = Process(cat)
    client = await dial(server.exec(process))
    streams = await asyncio.wait_for(process.started, 10)
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, b"\x82\x01x")
    received = b""
    while more := await asyncio.wait_for(loop.sock_recv(client, 1000), 10):
        received += more
    assert b"\x03\xea" in received  # close code 1002
    await asyncio.wait_for(streams.closed.wait(), 10)
    client.close()


async def test_the_servers_end_is_no_success_to_its_clients(
    serve: Serve, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    server = await serve(StreamingSettings())
    process = Process(cat)
    async with go_client.start(*transport, "-stdin", "process", server.exec(process)) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(b"hello\n")
        assert await asyncio.wait_for(client.stdout.readline(), 10) == b"hello\n"
        await server.stop()
        assert await asyncio.wait_for(client.wait(), 20) != 0


async def test_the_servers_end_says_goodbye_and_ends_processes() -> None:
    server = StreamingServer(StreamingSettings())
    await server.start()
    process = Process(cat)
    async with connect("ws" + server.exec(process).removeprefix("http"), subprotocols=["v5.channel.k8s.io"]) as client:  # type: ignore[list-item]
        streams = await asyncio.wait_for(process.started, 10)
        stopping = asyncio.create_task(server.stop())
        assert [message async for message in client] == [b"\x01"]
        assert client.close_code == 1001
        await asyncio.wait_for(stopping, 10)
    assert streams.closed.is_set()
    assert server.idle
