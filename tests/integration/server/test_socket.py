"""The socket has one server (trap 22), and the server's end leaves everything as it should be."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import time
from collections.abc import Callable

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import AsyncCRIClient
from tests.env.engine import TestEngine
from tests.integration.server.pods import (
    EXITED,
    READY,
    RUNNING,
    SLEEP,
    Pod,
    container_status,
    listed_states,
    make_container,
    make_pod,
)
from tests.integration.server.residue import assert_nothing_left
from tests.integration.server.serving import CALL, CrishimServer
from tests.integration.server.waiting import until

pytestmark = pytest.mark.engine
TAKEN = 3
"""Exit status of a server whose socket is served by another one."""
NewServer = Callable[..., CrishimServer]


def test_two_servers(new_server: NewServer) -> None:
    """The second one says who serves and ends; the first one has noticed nothing. Of many at once one wins."""
    server = new_server()
    server.start()
    second = server.launch()
    assert second.wait(30) == TAKEN
    assert f"{server.socket} is served by process {server.pid}" in server.last_words()
    assert server.condition().status
    assert server.socket.exists()
    assert server.stop() == 0
    many = [server.launch() for _ in range(3)]
    try:
        until(lambda: sum(process.poll() is None for process in many) == 1, "one that is left")
        assert sorted(process.poll() or 0 for process in many) == [0, TAKEN, TAKEN]
        until(lambda: server.socket.exists() and server.condition().status, "it serves")
    finally:
        server.close_client()
        for process in many:
            process.terminate()
            process.wait()
    assert not server.socket.exists()


def test_stale_socket(new_server: NewServer) -> None:
    server = new_server()
    server.start()
    pod = Pod(server)
    server.kill9()
    assert server.socket.exists(), "nobody was left to remove it"
    server.start()
    assert listed_states(server) == {pod.id: READY}
    assert stat.S_IMODE(server.socket.stat().st_mode) == 0o660
    pod.remove()
    assert server.stop() == 0
    assert not server.socket.exists()
    assert not list(server.folder.glob("*.lock"))


def test_strangers_socket(new_server: NewServer) -> None:
    """A living socket of somebody else's, without a lock beside it, and what is no socket: both are left alone."""
    server = new_server()
    server.folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(server.socket))
        listening.listen()
        assert server.launch().wait(30) == TAKEN
        assert f"is served by process {os.getpid()}" in server.last_words()
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(server.socket))
    server.socket.unlink()
    server.socket.write_text("precious")
    assert server.launch().wait(30) == TAKEN
    assert server.socket.read_text() == "precious"


def test_misconfigured(new_server: NewServer) -> None:
    """All that is wrong is said at once, and the exit status tells it from other failures."""
    server = new_server(flags=["--no-such-flag=1", "--drain-limit=never", "--network=magic"])
    server.folder.mkdir()
    assert server.launch().wait(30) == 2
    words = server.log.read_text()
    for culprit in ("--no-such-flag", "drain", "magic"):
        assert culprit in words
    assert "Traceback" not in words


def under_way(server: CrishimServer) -> dict[str, int]:
    """Verbs that the server is carrying out, and how often."""
    return {
        name.rpartition("/")[2].rstrip("]"): count
        for name, count in server.tasks().items()
        if "HandleExceptions" in name
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_drains(new_server: NewServer, engine: TestEngine, number: signal.Signals) -> None:
    """Calls under way come to their end, new ones are refused, and the exit status is 0."""
    server = new_server()
    await asyncio.to_thread(server.start)
    pod = await asyncio.to_thread(Pod, server)
    stubborn = make_container("stubborn", command=["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"])
    container_id = await asyncio.to_thread(pod.start, stubborn)
    assert server.process is not None
    async with AsyncCRIClient(server.endpoint) as client:
        making = [
            asyncio.ensure_future(client.RunPodSandbox(pb.RunPodSandboxRequest(config=make_pod(server)), timeout=CALL))
            for _ in range(3)
        ]
        stop = pb.StopContainerRequest(container_id=container_id, timeout=2)
        stopping = asyncio.ensure_future(client.StopContainer(stop, timeout=CALL))

        def begun() -> bool:  # pods that are there already need not be waited for
            now, ended = under_way(server), sum(call.done() for call in making)
            return now.get("StopContainer") == 1 and now.get("RunPodSandbox", 0) + ended == 3

        await asyncio.to_thread(until, begun, "calls")
        server.process.send_signal(number)
        made = [(await asyncio.wait_for(_answer(call), 30)).pod_sandbox_id for call in making]
        await asyncio.wait_for(_answer(stopping), 30)
    assert await asyncio.to_thread(server.process.wait, 30) == 0
    assert "Traceback" not in server.log.read_text()
    await asyncio.to_thread(server.start)
    states = listed_states(server)
    assert states == dict.fromkeys((pod.id, *made), READY) | {container_id: EXITED}
    await asyncio.to_thread(server.remove_all)
    await asyncio.to_thread(assert_nothing_left, server, engine.api)


async def test_drain_limit(new_server: NewServer, engine: TestEngine) -> None:
    """What takes longer is cancelled and undone; a container's long stop is left where it is."""
    server = new_server(flags=["--drain-limit=0.5"])
    await asyncio.to_thread(server.start)
    pod = await asyncio.to_thread(Pod, server)
    stubborn = make_container("stubborn", command=["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"])
    container_id = await asyncio.to_thread(pod.start, stubborn)
    assert server.process is not None
    async with AsyncCRIClient(server.endpoint) as client:
        stop = pb.StopContainerRequest(container_id=container_id, timeout=600)
        stopping = asyncio.ensure_future(client.StopContainer(stop, timeout=CALL))
        await asyncio.to_thread(until, lambda: under_way(server) == {"StopContainer": 1}, "the call")
        began = time.monotonic()
        server.process.terminate()
        with pytest.raises((grpc.RpcError, asyncio.CancelledError)):
            await asyncio.wait_for(_answer(stopping), 30)
        assert await asyncio.to_thread(server.process.wait, 30) == 0
        assert time.monotonic() - began < CALL / 2
    await asyncio.to_thread(server.start)
    assert listed_states(server) == {pod.id: READY, container_id: RUNNING}
    await asyncio.to_thread(server.remove_all)
    await asyncio.to_thread(assert_nothing_left, server, engine.api)


async def _answer(call: object) -> pb.RunPodSandboxResponse:
    return await call  # type: ignore[misc, no-any-return]


def test_pods_outlive_a_restart(new_server: NewServer, engine: TestEngine) -> None:
    """All that is told is told again by the next life, without the pod having noticed anything."""
    server = new_server()
    server.start()
    pod = Pod(server, make_pod(server, annotations={"note": "kept", "annotation.odd": "kept, too"}))
    container_id = pod.start(make_container(command=SLEEP, envs=[pb.KeyValue(key="A", value=b"1")]))
    ended = pod.start(make_container("ended", command=["sh", "-c", "exit 3"]))
    pod.ended(ended)
    created = pod.create(make_container("created"))

    def told() -> list[object]:
        statuses = [container_status(server, key) for key in (container_id, ended, created)]
        statuses[1].ClearField("user")  # of one that has ended the kernel tells nothing any more
        return [pod.status(), *statuses, listed_states(server)]

    before = told()
    for _ in range(2):
        server.restart()
        assert told() == before
    server.remove_all()
    assert_nothing_left(server, engine.api)


def test_ready_is_told_once_and_soon(new_server: NewServer) -> None:
    """One line with versions, backends and the time that it took; a quiet machine needs less than a second."""
    server = new_server()
    server.start()
    lines = [line for line in server.log.read_text().splitlines() if "READY" in line]
    assert len(lines) == 1
    for part in ("crishim", "engine docker", "network none", "checkpoints sqlite", str(server.socket)):
        assert part in lines[0]
