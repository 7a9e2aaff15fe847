"""The Docker adapter on a real engine, and on sockets that only pretend to be one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crishim.engine.docker import Deadlines, DockerEngine
from tests.env import images
from tests.env.engine import TestEngine

Answer = Callable[[str, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What a pretended engine does with one request, given its first line."""


@pytest.fixture
async def connected() -> AsyncIterator[Callable[..., Awaitable[DockerEngine]]]:
    """``await connected(url, handshake=True, **deadlines)``: an adapter, closed after the test."""
    async with AsyncExitStack() as stack:

        async def make(url: str, *, handshake: bool = True, **limits: float) -> DockerEngine:
            adapter = DockerEngine(url, deadlines=Deadlines(**limits))
            stack.push_async_callback(adapter.close)
            if handshake:
                await adapter.connect()
            return adapter

        yield make


@pytest.fixture
async def docker(
    engine: TestEngine, busybox_image: str, connected: Callable[..., Awaitable[DockerEngine]]
) -> AsyncIterator[DockerEngine]:
    """An adapter on the shared engine, which has busybox; the test must leave no container."""
    assert busybox_image
    adapter = await connected(engine.url)
    yield adapter
    left = await asyncio.to_thread(engine.api.call, "GET", "/containers/json", {"all": "1"})
    assert not left, [row["Names"] for row in left]


@pytest.fixture
async def own_engine(new_engine: Callable[..., TestEngine]) -> Callable[..., Awaitable[TestEngine]]:
    """``await own_engine(config=...)``: an engine of the test's own, with busybox."""

    async def make(**arguments: Any) -> TestEngine:
        made = await asyncio.to_thread(new_engine, **arguments)
        await asyncio.to_thread(images.busybox().load, made.api, images.BUSYBOX_REF)
        return made

    return make


@pytest.fixture
def pretend(tmp_path: Path) -> Callable[[Answer], Any]:
    """``async with pretend(answer) as url``: a socket on which `answer` speaks instead of an engine."""

    @asynccontextmanager
    async def serve(answer: Answer) -> AsyncIterator[str]:
        tasks: set[asyncio.Task[None]] = set()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while head := await reader.readuntil(b"\r\n\r\n"):
                    if length := re.search(rb"(?i)content-length: (\d+)", head):
                        await reader.readexactly(int(length[1]))
                    await answer(head.split(b"\r\n")[0].decode(), reader, writer)
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks.add(asyncio.create_task(talk(reader, writer)))

        server = await asyncio.start_unix_server(accept, tmp_path / "pretended.sock", backlog=1024)
        try:
            yield f"unix://{tmp_path}/pretended.sock"
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    return serve
