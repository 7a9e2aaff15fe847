"""A streaming server in the test's own loop, which has let go of everything at the end; and client-go's client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from crishim.streaming.server import StreamingServer, StreamingSettings
from tests.streaming_client.build import client_path

PATIENCE = 30.0
"""Seconds within which anything that must happen does."""


async def until(condition: Callable[[], object]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - it is a state of several objects
            await asyncio.sleep(0.005)


Serve = Callable[[StreamingSettings], Awaitable[StreamingServer]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts servers. When the test is done its clients must be gone, and then nothing may be left."""
    before = set(asyncio.all_tasks())
    started = []

    async def start(settings: StreamingSettings) -> StreamingServer:
        server = StreamingServer(settings)
        await server.start()
        started.append(server)
        return server

    yield start
    await until(lambda: all(server.idle for server in started))
    for server in started:
        await server.stop()
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left, left


@pytest.fixture
async def server(serve: Serve) -> StreamingServer:
    """One with the defaults."""
    return await serve(StreamingSettings())


@dataclass(frozen=True)
class Done:
    """How a client ended."""

    status: int
    output: bytes
    errors: bytes


class GoClient:
    """Runs the client."""

    def __init__(self, program: Path) -> None:
        self._program = program

    @contextlib.asynccontextmanager
    async def start(self, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """The client under way; ended at the latest with the context."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            self._program, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, limit=1 << 20
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()

    async def run(self, *arguments: str, given: bytes = b"") -> Done:
        """To its end."""
        async with self.start(*arguments) as process, asyncio.timeout(2 * PATIENCE):
            output, errors = await process.communicate(given)
        assert process.returncode is not None
        return Done(process.returncode, output, errors)


@pytest.fixture(scope="session")
def go_client() -> GoClient:
    """client-go's, built."""
    return GoClient(client_path())


@pytest.fixture(params=["spdy", "websocket", "auto"])
def transport(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The client's flags for each transport."""
    return ("-transport", str(request.param))
