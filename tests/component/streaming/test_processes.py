"""Exec and attach by client-go over real sockets, on programs in memory."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Awaitable, Callable

import pytest
from websockets.asyncio.client import connect

from crishim.errors import EngineError
from crishim.model.streams import TerminalSize
from crishim.streaming.server import StreamingServer
from tests.component.streaming.conftest import GoClient, until
from tests.component.streaming.fakes import Process, Streams, cat, counts, pours, says, sleeps
from tests.component.streaming.spdy_by_hand import Client, dial


async def test_both_outputs_and_the_exit_code(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    for code in (0, 1, 137, 255):
        process = Process(says(b"out", stderr=b"err", code=code), stdin=False)
        done = await go_client.run(*transport, "process", server.exec(process))
        assert (done.status, done.output, done.errors) == (code, b"out", b"err")


async def test_an_attach_ends_with_success(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    done = await go_client.run(*transport, "process", server.attach(Process(says(b"out", code=9), stdin=False)))
    assert (done.status, done.output) == (0, b"out")


async def test_the_end_of_stdin_reaches_the_process(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    done = await go_client.run(*transport, "-stdin", "process", server.exec(Process(counts)), given=b"hello")
    assert (done.status, done.output) == (0, b"5")


async def test_a_process_that_does_not_start_is_told_in_the_engines_words(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    process = Process(cat, error=EngineError('exec: "nope": executable file not found in $PATH'))
    done = await go_client.run(*transport, "-stdin", "process", server.exec(process), given=b"x" * 100_000)
    assert done.output == b""
    assert b'exec: "nope": executable file not found in $PATH' in done.errors


async def test_a_terminals_first_size_is_in_force_at_the_start(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    process = Process(says(b"hi"), tty=True)
    flags = (*transport, "-stdin", "-tty", "-width", "100", "-height", "40")
    done = await go_client.run(*flags, "process", server.exec(process))
    assert (done.status, done.output) == (0, b"hi")
    assert process.started.result().sizes == [TerminalSize(100, 40)]


async def test_a_terminal_whose_client_tells_no_size_starts_all_the_same(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    process = Process(says(b"hi"), tty=True)
    done = await go_client.run(*transport, "-stdin", "-tty", "process", server.exec(process))
    assert (done.status, done.output) == (0, b"hi")
    assert process.started.result().sizes == []


async def test_of_sizes_that_come_while_one_is_being_set_the_last_counts(
    server: StreamingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(sleeps, tty=True)
    began, go_on, found = asyncio.Event(), asyncio.Event(), list[TerminalSize]()

    async def resize(size: TerminalSize) -> None:
        began.set()
        await go_on.wait()
        found.append(size)

    url = "ws" + server.exec(process).removeprefix("http")
    async with connect(url, subprotocols=["v5.channel.k8s.io"]) as client:  # type: ignore[list-item]
        await client.send(b'\x04{"Width":80,"Height":24}')
        streams = await asyncio.wait_for(process.started, 10)
        assert streams.sizes == [TerminalSize(80, 24)]
        monkeypatch.setattr(streams, "resize", resize)
        await client.send(b'\x04{"Width":81,"Height":24}')
        await asyncio.wait_for(began.wait(), 10)
        for width in (82, 83, 84):
            await client.send(b'\x04{"Width":%d,"Height":24}' % width)
        await (await client.ping())  # answered behind them
        go_on.set()
        await until(lambda: len(found) > 1)
    assert found == [TerminalSize(81, 24), TerminalSize(84, 24)]


async def test_200_that_are_open_at_once(server: StreamingServer) -> None:
    """All of them talk while all are open, and each has its own bytes and its own end."""
    clients: list[Client] = []
    for code in range(200):
        client = await dial(server.exec(Process(says_back(code), stderr=False)), "v4.channel.k8s.io")
        clients.append(client)
        for stream, kind in ((1, "error"), (3, "stdin"), (5, "stdout")):
            client.open(stream, {"streamtype": kind})
    assert len(server._connections) == len(clients)
    for code, client in enumerate(clients):
        client.send(3, b"hello %03d" % code)
    for code, client in enumerate(clients):
        assert await client.received(5, size=9) == b"hello %03d" % code
    for code, client in enumerate(clients):
        client.send(3, b"", fin=True)
        assert await client.received(5, ended=True) == b"hello %03d" % code
        status = json.loads(await client.received(1, ended=True))
        exits = [cause["message"] for cause in status.get("details", {}).get("causes", ())]
        assert exits == ([str(code)] if code else [])
        client.close()


def says_back(code: int) -> Callable[[Streams], Awaitable[int]]:
    """`cat`, and then this exit code."""

    async def program(streams: Streams) -> int:
        await cat(streams)
        return code

    return program


@pytest.mark.soak
async def test_64_mib_of_random_bytes_there_and_back(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...], scaled: Callable[[int], int]
) -> None:
    for _ in range(scaled(20)):
        data = os.urandom(64 << 20)
        done = await go_client.run(*transport, "-stdin", "process", server.exec(Process(cat)), given=data)
        assert done.status == 0, done.errors
        assert hashlib.sha256(done.output).digest() == hashlib.sha256(data).digest()


async def test_a_slow_reader_gets_everything_and_the_exit_code(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    size = 24 << 20
    async with go_client.start(*transport, "process", server.exec(Process(pours(size), stdin=False))) as client:
        assert client.stdout is not None
        await client.stdout.readexactly(1)
        # The process is held up, so that nothing piles up here.
        connection = next(iter(server._connections))
        await until(lambda: connection.congested)
        rest = await asyncio.wait_for(client.stdout.read(-1), 30)
        assert len(rest) == size - 1
        assert await client.wait() == 0


async def test_a_slow_writer_of_single_bytes(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    async with go_client.start(*transport, "-stdin", "process", server.exec(Process(cat))) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        for number in range(200):
            client.stdin.write(bytes([number]))
            assert await client.stdout.readexactly(1) == bytes([number])
        client.stdin.close()
        assert await client.wait() == 0


async def test_input_is_held_back_while_the_process_does_not_read(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    go_on = asyncio.Event()

    async def lazy(streams: Streams) -> int:
        await streams.say(b"still talking")
        await go_on.wait()
        return await counts(streams)

    async with go_client.start(*transport, "-stdin", "process", server.exec(Process(lazy))) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(b"x" * (16 << 20))
        assert await client.stdout.readexactly(13) == b"still talking"
        connection = next(iter(server._connections))
        await until(lambda: connection.reading_paused)
        go_on.set()
        await client.stdin.drain()
        client.stdin.close()
        assert await client.stdout.read() == b"%d" % (16 << 20)
        assert await client.wait() == 0


async def test_a_process_that_ends_while_input_comes(
    server: StreamingServer, go_client: GoClient, transport: tuple[str, ...]
) -> None:
    async def head(streams: Streams) -> int:
        first = await streams.input()
        await streams.say(b"%d" % bool(first) + b"." * 300_000)
        return 4

    done = await go_client.run(*transport, "-stdin", "process", server.exec(Process(head)), given=b"x" * (8 << 20))
    assert (done.status, len(done.output)) == (4, 300_001)
