"""Streams on a real socket: written as they are read, ended by whoever leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import grpc
import pytest

from crishim.aiokit import steps
from crishim.cri.v1 import runtime_pb2 as pb
from crishim.errors import ContainerNotFound
from crishim.rpc.table import Handler
from tests.component.rpc.serving import serving, version


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.sock"


async def test_a_stream_is_written_as_it_is_read(path: Path) -> None:
    asked = asyncio.Queue[int]()

    async def numbers(served: Any, request: Any) -> AsyncGenerator[bytes]:
        async def produce() -> AsyncGenerator[bytes]:
            while True:
                number = await asked.get()
                yield pb.StreamContainersResponse(containers=[pb.Container(id=str(number))]).SerializeToString()

        return produce()

    async with serving(path, StreamContainers=numbers) as client:
        stream = client.StreamContainers(pb.StreamContainersRequest(), timeout=20)
        for number in (3, 1, 2):
            asked.put_nowait(number)
            assert [c.id for c in (await stream.read()).containers] == [str(number)]
        stream.cancel()


async def test_a_stream_may_be_empty(path: Path) -> None:
    async with serving(path, StreamContainers=streaming()) as client:
        assert [m async for m in client.StreamContainers(pb.StreamContainersRequest(), timeout=20)] == []


async def test_a_stream_that_fails_in_the_middle_tells_its_code(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(path, StreamContainers=streaming(b"", b"", ContainerNotFound("gone"))) as client:
        stream = client.StreamContainers(pb.StreamContainersRequest(), timeout=20)
        got = [await stream.read(), await stream.read()]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
    assert got == [pb.StreamContainersResponse()] * 2
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "gone")
    async with serving(path, StreamContainers=streaming(b"", RuntimeError("secret"))) as client:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in client.StreamContainers(pb.StreamContainersRequest(), timeout=20):
                pass
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in (caught.value.details() or "")


async def test_a_stream_whose_reader_leaves_ends_at_once(path: Path) -> None:
    ended = asyncio.Event()

    async def endless(served: Any, request: Any) -> AsyncGenerator[bytes]:
        async def produce() -> AsyncGenerator[bytes]:
            try:
                yield b""
                await asyncio.Event().wait()
            finally:
                ended.set()

        return produce()

    calls: list[steps.Call] = []
    async with serving(path, sinks=(calls.append,), StreamContainers=endless) as client:
        stream = client.StreamContainers(pb.StreamContainersRequest(), timeout=20)
        await stream.read()
        stream.cancel()
        await asyncio.wait_for(ended.wait(), 20)
    assert [call.outcome for call in calls] == ["CANCELLED"]


async def test_a_reader_that_stalls_holds_the_writer_and_not_the_server(path: Path) -> None:
    written = 0

    async def much(served: Any, request: Any) -> AsyncGenerator[bytes]:
        async def produce() -> AsyncGenerator[bytes]:
            nonlocal written
            body = pb.StreamContainersResponse(containers=[pb.Container(id="x" * 250_000)]).SerializeToString()
            for _ in range(400):
                yield body
                written += 1

        return produce()

    async with serving(path, StreamContainers=much, Version=version) as client:
        stream = client.StreamContainers(pb.StreamContainersRequest(), timeout=60)
        messages = aiter(stream)
        await anext(messages)
        before = -1
        while before != written:  # until flow control holds it
            before = written
            for _ in range(20):
                assert (await client.Version(pb.VersionRequest(version="x"))).version == "x"
        assert written < 400
        rest = [message async for message in messages]
        assert len(rest) == 399


async def test_a_reader_who_leaves_in_the_middle_is_no_error(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ended: asyncio.Queue[steps.Call] = asyncio.Queue()
    body = pb.StreamContainersResponse(containers=[pb.Container(id="x" * 1_000_000)]).SerializeToString()
    async with serving(path, sinks=(ended.put_nowait,), StreamContainers=streaming(*[body] * 100)) as client:
        stream = client.StreamContainers(pb.StreamContainersRequest(), timeout=60)
        await stream.read()
        stream.cancel()
        assert (await ended.get()).outcome == "CANCELLED"
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def streaming(*items: bytes | Exception) -> Handler:
    """A handler of a stream of these messages; an error among them ends it."""

    async def handler(served: Any, request: Any) -> AsyncGenerator[bytes]:
        async def produce() -> AsyncGenerator[bytes]:
            for item in items:
                if isinstance(item, Exception):
                    raise item
                yield item

        return produce()

    return handler
