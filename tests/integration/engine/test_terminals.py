"""Terminals on a real engine: every key arrives, also those on which engines let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from crishim.engine.docker import DockerEngine
from crishim.engine.values import ContainerSpec
from crishim.model.streams import ProcessStreams, TerminalSize, WantedStreams
from tests.env.engine import TestEngine

pytestmark = pytest.mark.engine

TERMINAL = WantedStreams(tty=True, stdin=True, stdout=True, stderr=False)
KEYS = bytes(range(256)) + b"\x10\x11" + b"\x1e\x1e" + b"\x10\x11end"
"""All there are, ctrl-p ctrl-q among them. What comes last is none of those that the engine waits on."""
SCRIPT = f"stty raw -echo; echo ready; head -c {len(KEYS)} | od -An -v -tx1; echo over"


@pytest.fixture
async def docker(engine: TestEngine) -> AsyncIterator[DockerEngine]:
    adapter = DockerEngine(engine.url)
    await adapter.connect()
    yield adapter
    await adapter.close()


async def type_all(streams: ProcessStreams, *, at_once: bool) -> bytes:
    """Type all keys once the script is ready; which have arrived."""

    async def until(word: bytes) -> bytes:
        said = b""
        async with asyncio.timeout(60):
            while word not in said:
                item = await streams.read()
                assert item is not None, said
                said += item[1]
        return said

    await until(b"ready")
    for key in [KEYS] if at_once else [bytes([key]) for key in KEYS]:
        await streams.write(key)
        await asyncio.sleep(0)
    words = (await until(b"over")).decode().replace("over", " ").replace("\n", " ").split()
    return bytes(int(word, 16) for word in words if len(word) == 2)


@pytest.mark.parametrize("at_once", [True, False], ids=["pasted", "typed"])
async def test_exec(docker: DockerEngine, busybox_image: str, at_once: bool) -> None:
    container = await docker.create(
        "crishim-test-keys", ContainerSpec(image=busybox_image, labels={}, entrypoint=("sleep", "100"))
    )
    try:
        await docker.start(container)
        process = await docker.exec(container, ["sh", "-c", SCRIPT], TERMINAL)
        await process.start(TerminalSize(80, 24))
        await process.up()
        assert await type_all(process, at_once=at_once) == KEYS
        await process.close()
    finally:
        await docker.remove(container)


@pytest.mark.parametrize("at_once", [True, False], ids=["pasted", "typed"])
async def test_attach(docker: DockerEngine, busybox_image: str, at_once: bool) -> None:
    spec = ContainerSpec(
        image=busybox_image, labels={}, entrypoint=("sh", "-c", f"read x; {SCRIPT}; sleep 100"), tty=True, stdin=True
    )
    container = await docker.create("crishim-test-keys", spec)
    try:
        await docker.start(container)
        streams = await docker.attach(container, TERMINAL, TerminalSize(80, 24), ends_stdin=False)
        await streams.write(b"go\n")
        assert await type_all(streams, at_once=at_once) == KEYS
        await streams.close()
    finally:
        await docker.remove(container)
