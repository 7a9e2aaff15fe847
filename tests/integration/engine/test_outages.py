"""Engines that hang, go away and come back; many calls at once."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from crishim.engine.docker import Deadlines, DockerEngine
from crishim.engine.values import ContainerPhase, ContainerSpec, EngineEvent
from crishim.errors import EngineError, EngineTimeout, EngineUnavailable, EngineUnsuitable, Kind
from tests.env.engine import TestEngine
from tests.env.images import BUSYBOX_REF

Connected = Callable[..., Awaitable[DockerEngine]]
SLEEPER = ContainerSpec(image=BUSYBOX_REF, labels={}, entrypoint=("sleep", "infinity"))
VERSION = {"ApiVersion": "1.41", "MinAPIVersion": "1.12", "Os": "linux", "Version": "20.10.24"}
INFO = {"KernelVersion": os.uname().release, "OSType": "linux", "CgroupVersion": "1", "DefaultRuntime": "runc"}


def json_answer(value: object, status: str = "200 OK") -> bytes:
    """An HTTP answer with a JSON body."""
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def test_no_socket(tmp_path: Path, connected: Connected) -> None:
    adapter = await connected(f"unix://{tmp_path}/none.sock", handshake=False)
    with pytest.raises(EngineUnavailable, match=r"none\.sock"):
        await adapter.connect()


async def test_socket_without_a_listener(tmp_path: Path, connected: Connected) -> None:
    server = await asyncio.start_unix_server(lambda *_: None, tmp_path / "old.sock")
    server.close()
    await server.wait_closed()
    assert (tmp_path / "old.sock").exists()
    adapter = await connected(f"unix://{tmp_path}/old.sock", handshake=False)
    with pytest.raises(EngineUnavailable, match="refused"):
        await adapter.connect()


async def test_socket_that_never_answers(pretend: Any) -> None:
    async def silence(*_: object) -> None:
        await asyncio.Event().wait()

    async with pretend(silence) as url:
        adapter = DockerEngine(url, deadlines=Deadlines(handshake=0.2))
        with pytest.raises(EngineUnavailable, match=r"handshake.*0\.2"):
            await asyncio.wait_for(adapter.connect(), 5)
        await adapter.close()


async def test_one_call_that_hangs_holds_no_other(pretend: Any, connected: Connected) -> None:
    """And neither do 300 of them."""
    hanging = 0
    all_hang = asyncio.Event()

    async def answer(line: str, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal hanging
        if "/version" in line:
            writer.write(json_answer(VERSION))
        elif "/info" in line:
            writer.write(json_answer(INFO))
        elif "/containers/json" in line:
            writer.write(json_answer([{"Id": "a" * 64, "ImageID": "sha256:b"}]))
        else:
            hanging += 1
            if hanging == 300:
                all_hang.set()
            await asyncio.Event().wait()

    async with pretend(answer) as url:
        adapter = await connected(url, inspect=60)
        hung = [asyncio.create_task(adapter.inspect("c" * 64)) for _ in range(300)]
        await asyncio.wait_for(all_hang.wait(), 30)
        assert list(await adapter.list_containers()) == ["a" * 64]
        assert not any(task.done() for task in hung)
        for task in hung:
            task.cancel()
        await asyncio.wait(hung)
        adapter = await connected(url, inspect=0.5)
        results = await asyncio.gather(*(adapter.inspect("c" * 64) for _ in range(300)), return_exceptions=True)
        assert {type(result) for result in results} == {EngineTimeout}
        assert list(await adapter.list_containers()) == ["a" * 64]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<hi>", EngineError),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n{oh}", EngineError),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", EngineError),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nwhat", EngineError),
        (b"HTTP/1.1 500 Oops\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", EngineError),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{", EngineUnavailable),
        (b"SSH-2.0-OpenSSH\r\n", EngineUnavailable),
        (b"", EngineUnavailable),
    ],
)
async def test_answers_that_are_none(
    pretend: Any, connected: Connected, body: bytes, expected: type[Exception]
) -> None:
    async def answer(line: str, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if "/version" in line:
            writer.write(json_answer(VERSION))
        elif "/info" in line:
            writer.write(json_answer(INFO))
        else:
            writer.write(body.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            writer.close()

    async with pretend(answer) as url:
        adapter = await connected(url)
        for call in (adapter.inspect("a" * 64), adapter.inspect_image("a:1"), adapter.create("name", SLEEPER)):
            with pytest.raises(expected):
                await call


@pytest.mark.parametrize("path", ["/version", "/info"])
async def test_handshake_with_what_is_not_well(pretend: Any, connected: Connected, path: str) -> None:
    """An error or nonsense in its answers: unavailable, to be tried again, and not unsuitable for good."""
    for body in (json_answer({"message": "starting"}, "503 Not Yet"), json_answer([1, 2])):

        async def answer(line: str, _: asyncio.StreamReader, writer: asyncio.StreamWriter, bad: bytes = body) -> None:
            writer.write(bad if path in line else json_answer(VERSION))

        async with pretend(answer) as url:
            adapter = await connected(url, handshake=False)
            with pytest.raises(EngineUnavailable):
                await adapter.connect()


async def test_one_bad_image_among_many(pretend: Any, connected: Connected, caplog: pytest.LogCaptureFixture) -> None:
    """One that went away is left out, and so is one that the engine cannot tell of: the others are there."""
    status = "404 Not Found"

    async def answer(line: str, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if "/version" in line:
            writer.write(json_answer(VERSION))
        elif "/info" in line:
            writer.write(json_answer(INFO))
        elif "/images/json" in line:
            writer.write(json_answer([{"Id": f"sha256:{number}"} for number in range(20)]))
        elif "/images/sha256:7/" in line:
            writer.write(json_answer({"message": "not this one"}, status))
        else:
            writer.write(json_answer({"Id": line.split("/")[3], "Size": 1}))

    async with pretend(answer) as url:
        adapter = await connected(url)
        assert len(await adapter.list_images()) == 19
        assert "not listed" not in caplog.text
        status = "500 Internal Server Error"
        assert len(await adapter.list_images()) == 19
        assert "image sha256:7 cannot be inspected and is not listed: not this one" in caplog.text


async def test_images_of_which_one_hangs_and_all_hang(pretend: Any, connected: Connected) -> None:
    """One costs its deadline; when the engine tells of none any more, that is told."""
    hanging = "/images/sha256:7/"

    async def answer(line: str, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if "/version" in line:
            writer.write(json_answer(VERSION))
        elif "/info" in line:
            writer.write(json_answer(INFO))
        elif "/images/json" in line:
            writer.write(json_answer([{"Id": f"sha256:{number}"} for number in range(20)]))
        elif hanging not in line:
            writer.write(json_answer({"Id": line.split("/")[3], "Size": 1}))

    async with pretend(answer) as url:
        adapter = await connected(url, list=0.2)
        assert len(await adapter.list_images()) == 19
        hanging = "/images/sha256:"
        with pytest.raises(EngineTimeout):
            await adapter.list_images()


async def test_what_the_engine_warns_of_is_logged(
    pretend: Any, connected: Connected, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(line: str, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if "/version" in line:
            writer.write(json_answer(VERSION))
        elif "/info" in line:
            writer.write(json_answer(INFO))
        else:
            writer.write(json_answer({"Id": "a" * 64, "Warnings": ["no swap limit here"]}, "201 Created"))

    caplog.set_level("INFO", "crishim.engine.docker")
    async with pretend(answer) as url:
        adapter = await connected(url)
        assert await adapter.create("warned", SLEEPER) == "a" * 64
    assert "no swap limit here" in caplog.text


async def test_what_listens_is_no_engine(pretend: Any, connected: Connected) -> None:
    async def answer(_: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json_answer({"message": "hello"}))

    async with pretend(answer) as url:
        adapter = await connected(url, handshake=False)
        with pytest.raises(EngineUnsuitable, match="no Docker Engine"):
            await adapter.connect()


@pytest.mark.engine
async def test_300_waits_at_once(docker: DockerEngine) -> None:
    container_id = await docker.create("waited-for", SLEEPER)
    try:
        await docker.start(container_id)
        waits = [asyncio.create_task(docker.wait(container_id)) for _ in range(300)]
        done, _ = await asyncio.wait(waits, timeout=0.5)
        assert not done
        assert (await asyncio.wait_for(docker.inspect(container_id), 30)).phase is ContainerPhase.RUNNING
        await docker.kill(container_id, "SIGKILL")
        async with asyncio.timeout(30):
            await asyncio.gather(*waits)
    finally:
        await docker.remove(container_id)


@pytest.mark.engine
async def test_frozen_engine(own_engine: Any, connected: Connected) -> None:
    """Every call ends at its limit; after the thaw all is as before, without a new handshake."""
    engine: TestEngine = await own_engine()
    adapter = await connected(engine.url, inspect=0.5, list=0.5, create=0.5, open_events=0.5)
    container_id = await (await connected(engine.url)).create("cold", SLEEPER)  # which may take longer
    engine.freeze()
    try:
        await asyncio.wait_for(asyncio.to_thread(_wait_frozen, engine.pid), 10)
        for call in (
            adapter.inspect(container_id),
            adapter.list_containers(),
            adapter.create("colder", SLEEPER),
            adapter.events().__aenter__(),
        ):
            with pytest.raises(EngineTimeout):
                await asyncio.wait_for(call, 30)
    finally:
        engine.thaw()
    async with asyncio.timeout(30):
        while True:
            with suppress(EngineTimeout):  # it works off what hung first
                assert (await adapter.inspect(container_id)).name == "cold"
                break


def _wait_frozen(pid: int) -> None:
    """Return when every thread of the process stands still: SIGSTOP takes its time."""
    tasks = Path(f"/proc/{pid}/task")
    while any("State:\tT" not in (task / "status").read_text() for task in tasks.iterdir()):
        time.sleep(0.005)


async def _to_the_end(events: AsyncIterator[EngineEvent]) -> None:
    async for _ in events:
        pass


@pytest.mark.engine
async def test_restart_of_the_engine_with_live_restore(own_engine: Any, connected: Connected) -> None:
    """Streams and waits end with EngineUnavailable, containers run on, and nothing has to be made anew."""
    engine: TestEngine = await own_engine(config={"live-restore": True})
    adapter = await connected(engine.url)
    container_id = await adapter.create("survivor", SLEEPER)
    await adapter.start(container_id)
    before = await adapter.inspect(container_id)
    async with adapter.events() as events:
        wait = asyncio.create_task(adapter.wait(container_id))
        await asyncio.wait([wait], timeout=0.2)
        restart = asyncio.create_task(asyncio.to_thread(engine.restart))
        with pytest.raises(EngineUnavailable):
            await asyncio.wait_for(_to_the_end(events), 30)
        with pytest.raises(EngineUnavailable):
            await asyncio.wait_for(wait, 30)
        await restart
    after = await adapter.inspect(container_id)
    assert (after.phase, after.pid) == (ContainerPhase.RUNNING, before.pid)
    facts = await adapter.connect()
    assert facts.live_restore
    async with adapter.events() as events:
        await adapter.remove(container_id)
        async with asyncio.timeout(30):
            assert (await anext(events)).id == container_id


@pytest.mark.engine
async def test_restart_of_the_engine_ends_containers_otherwise(own_engine: Any, connected: Connected) -> None:
    engine: TestEngine = await own_engine()
    adapter = await connected(engine.url)
    container_id = await adapter.create("victim", dataclasses.replace(SLEEPER, stop_signal="SIGKILL"))
    await adapter.start(container_id)
    await asyncio.to_thread(engine.restart)
    await adapter.connect()
    shown = await adapter.inspect(container_id)
    assert shown.phase is ContainerPhase.EXITED
    assert shown.finished_at >= shown.started_at > 0


@pytest.mark.engine
async def test_refusals_carry_their_kind(docker: DockerEngine) -> None:
    """What the engine says of a spec that cannot be."""
    for fields in ({"working_dir": "not/absolute"}, {"cap_add": ("CAP_NONE",)}):
        odd = dataclasses.replace(SLEEPER, **fields)
        with pytest.raises(EngineError) as caught:
            await _create_and_start(docker, odd)
        assert caught.value.kind is Kind.INVALID_ARGUMENT, (fields, caught.value)


async def _create_and_start(docker: DockerEngine, spec: ContainerSpec) -> None:
    container_id = await docker.create("odd", spec)
    try:
        await docker.start(container_id)
    finally:
        await docker.remove(container_id)
