"""The server on a real socket, with handlers that stand in for the verbs: what the edge makes of whatever they do."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from pathlib import Path
from typing import Any

import grpc
import pytest

from crishim.aiokit import steps
from crishim.cri.v1 import runtime_pb2 as pb
from crishim.errors import ContainerNotFound, CRIError, InvalidArgument, Kind, RegistryUnavailable
from crishim.rpc.server import MESSAGE_LIMIT, Server
from crishim.rpc.status import WIRE_LIMIT
from crishim.rpc.table import RUNTIME, TABLE, Handler
from crishim.rpc.unix_socket import ServerSocket
from crishim.testing.client import RPCS, AsyncCRIClient
from tests.component.rpc.serving import serving, version


def raising(error: BaseException) -> Handler:
    async def handler(served: Any, request: Any) -> pb.VersionResponse:
        raise error

    return handler


async def failure(client: AsyncCRIClient, name: str = "Version", request: Any = b"") -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await getattr(client, name)(request, timeout=20)
    return caught.value.code(), caught.value.details() or ""


async def nobody_listens(path: Path) -> None:
    """Return when the server has begun to stop: its listener is closed by another thread, which may be late."""
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_unix_connection(path)
            except (ConnectionRefusedError, FileNotFoundError):
                return
            writer.close()
            await asyncio.sleep(0.01)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.sock"


async def test_a_message_or_its_ready_bytes_are_answered(path: Path) -> None:
    async def ready(served: Any, request: pb.ListContainersRequest) -> bytes:
        return pb.ListContainersResponse(containers=[pb.Container(id=request.filter.id)]).SerializeToString()

    async with serving(path, Version=version, ListContainers=ready) as client:
        assert (await client.Version(pb.VersionRequest(version="x"))).version == "x"
        listed = await client.ListContainers(pb.ListContainersRequest(filter=pb.ContainerFilter(id="c1")))
        assert [c.id for c in listed.containers] == ["c1"]


@pytest.mark.parametrize("name", sorted(RPCS))
async def test_what_is_not_carried_out_says_so_by_name(path: Path, name: str) -> None:
    async def ask(client: AsyncCRIClient) -> None:
        call = getattr(client, name)(b"", timeout=20)
        if not RPCS[name][1].server_streaming:
            await call
        async for _ in call:
            raise AssertionError("an answer")

    async with serving(path) as client:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ask(client)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert caught.value.details() == f"{name} is not implemented"


@pytest.mark.parametrize("kind", Kind)
async def test_a_kind_becomes_the_code_of_its_name_and_the_message_its_text(path: Path, kind: Kind) -> None:
    error = CRIError("what happened")
    error.kind = kind
    async with serving(path, Version=raising(error)) as client:
        assert await failure(client) == (grpc.StatusCode[kind.value], "what happened")


async def test_a_prefix_that_kubelets_look_for_begins_the_text(path: Path) -> None:
    async with serving(path, PullImage=raising(RegistryUnavailable("no route to host"))) as client:
        code, text = await failure(client, "PullImage")
    assert (code, text) == (grpc.StatusCode.UNKNOWN, "RegistryUnavailable: no route to host")


@pytest.mark.parametrize("character", ["a", "é", "€", "\N{PILE OF POO}", "%", "\n", "\udce9"])
async def test_a_long_text_is_cut_on_the_wire_and_whole_in_the_log(
    path: Path, character: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    text = "begins: " + character * 5000
    async with serving(path, Version=raising(CRIError(text))) as client:
        code, told = await failure(client)
        assert code is grpc.StatusCode.UNKNOWN
        assert told.startswith("begins: ")
        assert told.endswith("the log has all of it)")
        assert WIRE_LIMIT - 80 < len(told.encode()) <= WIRE_LIMIT
    assert text in caplog.text


async def test_an_unknown_exception_shows_its_type_only_and_the_log_its_traceback(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(path, StopContainer=raising(KeyError("secret"))) as client:
        request = pb.StopContainerRequest(container_id="c1")
        assert await failure(client, "StopContainer", request) == (
            grpc.StatusCode.INTERNAL,
            "internal error in StopContainer: KeyError; the log has the details",
        )
    [record] = caplog.records
    assert record.levelname == "ERROR"
    assert record.exc_info is not None
    assert record.__dict__["ids"] == {"container": "c1"}
    assert "secret" in caplog.text


async def test_a_failed_call_is_logged_with_the_ids_of_request_and_error(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "crishim")
    error = ContainerNotFound("container 'c1' not found", container="c1full", sandbox="")
    async with serving(path, StartContainer=raising(error), RunPodSandbox=raising(CRIError("no"))) as client:
        await failure(client, "StartContainer", pb.StartContainerRequest(container_id="c1"))
        metadata = pb.PodSandboxMetadata(name="web", namespace="default")
        request = pb.RunPodSandboxRequest(config=pb.PodSandboxConfig(metadata=metadata))
        await failure(client, "RunPodSandbox", request)
    assert [(r.levelname, r.getMessage(), r.__dict__["ids"]) for r in caplog.records] == [
        ("INFO", "StartContainer: NOT_FOUND: container 'c1' not found", {"container": "c1full"}),
        ("WARNING", "RunPodSandbox: UNKNOWN: no", {"pod": "default/web"}),
    ]


async def test_bytes_that_are_no_request_are_an_invalid_argument(path: Path) -> None:
    async with serving(path, Version=version) as client:
        code, text = await failure(client, request=b"\xff\xff\xff")
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert text.startswith("not a runtime.v1.VersionRequest")
        assert (await client.Version(pb.VersionRequest(version="alive"))).version == "alive"


async def test_a_message_of_20_mib_is_refused_and_one_of_almost_16_passes(path: Path) -> None:
    async with serving(path, Version=version) as client:
        code, _ = await failure(client, request=pb.VersionRequest(version="x" * (20 << 20)))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        large = "x" * (MESSAGE_LIMIT - 1024)
        assert (await client.Version(pb.VersionRequest(version=large), timeout=60)).version == large


async def test_an_answer_that_is_too_large_fails_and_the_server_lives(path: Path) -> None:
    async def large(served: Any, request: pb.StatusRequest) -> pb.StatusResponse:
        return pb.StatusResponse(info={"x": "y" * (MESSAGE_LIMIT + 1)})

    async with serving(path, Status=large, Version=version) as client:
        code, _ = await failure(client, "Status")
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await client.Version(pb.VersionRequest(version="alive"))).version == "alive"


@pytest.mark.parametrize("how", ["deadline", "cancel"])
async def test_a_caller_that_gives_up_cancels_the_handler(path: Path, how: str) -> None:
    began, ended = asyncio.Event(), asyncio.Event()
    calls: list[steps.Call] = []

    async def slow(served: Any, request: Any) -> pb.VersionResponse:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with serving(path, sinks=(calls.append,), Version=slow) as client:
        await failure(client, "Status")  # there is a connection: none of the deadline goes into making it
        call = client.Version(b"", timeout=1 if how == "deadline" else 20)
        await asyncio.wait_for(began.wait(), 20)
        if how == "cancel":
            call.cancel()
        await asyncio.wait_for(ended.wait(), 20)
        with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
            await call
    assert [(c.verb, c.outcome) for c in calls if c.verb != "Status"] == [("Version", "CANCELLED")]


async def test_each_calls_steps_go_to_the_sinks_and_to_the_debug_log(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def stepping(served: Any, request: Any) -> pb.VersionResponse:
        with steps.step("ask the engine", engine=True):
            await asyncio.sleep(0)
        with steps.step("think"):
            pass
        return pb.VersionResponse()

    calls: list[steps.Call] = []
    caplog.set_level(logging.DEBUG, "crishim")
    async with serving(path, sinks=(calls.append,), Version=stepping, Status=raising(CRIError("x"))) as client:
        await client.Version(b"")
        await failure(client, "Status")
    assert [(c.verb, c.outcome, [s.name for s in c.steps]) for c in calls] == [
        ("Version", "", ["ask the engine", "think"]),
        ("Status", "UNKNOWN", []),
    ]
    lines = [r.getMessage() for r in caplog.records if r.levelname == "DEBUG" and r.name.startswith("crishim")]
    assert lines[0].startswith("Version OK in ")
    assert "*ask the engine " in lines[0]
    assert lines[1].startswith("Status UNKNOWN in ")
    assert lines[1].endswith("(no steps)")


async def test_a_sink_that_fails_changes_no_answer(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def full(call: steps.Call) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def answer(served: Any, request: Any) -> pb.VersionResponse:
        return pb.VersionResponse(version="done")

    calls: list[steps.Call] = []
    sinks = (full, calls.append)
    async with serving(path, sinks=sinks, Version=answer, Status=raising(InvalidArgument("x"))) as client:
        assert (await client.Version(b"")).version == "done"
        assert (await failure(client, "Status"))[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert [call.verb for call in calls] == ["Version", "Status"]
    assert "the steps of Version are lost" in caplog.text


async def test_stopping_waits_for_calls_under_way_and_takes_no_more(path: Path) -> None:
    release, began = asyncio.Event(), asyncio.Event()

    async def waits(served: Any, request: Any) -> pb.VersionResponse:
        began.set()
        await release.wait()
        return pb.VersionResponse(version="done")

    table: dict[str, tuple[str, Handler | None]] = {name: (s, None) for name, (s, _) in TABLE.items()}
    table["Version"] = (RUNTIME, waits)
    with ServerSocket(path) as socket:
        server = Server(None, table=table)  # type: ignore[arg-type]
        await server.start(socket)
        # The late caller connects anew: over the other's connection the library may let it in until the end is told.
        own = (("grpc.use_local_subchannel_pool", 1),)
        async with (
            AsyncCRIClient(f"unix://{path}") as client,
            grpc.aio.insecure_channel(f"unix://{path}", options=own) as late,
        ):
            call = client.Version(b"", timeout=30)
            await asyncio.wait_for(began.wait(), 20)
            stopping = asyncio.create_task(server.stop(30))
            await nobody_listens(path)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await late.unary_unary(RPCS["Version"][0], None, None)(b"", timeout=20)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert not stopping.done()
            release.set()
            assert (await call).version == "done"
            await stopping
    assert os.listdir(path.parent) == []


async def test_stopping_cancels_what_is_under_way_after_the_limit(path: Path) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def never(served: Any, request: Any) -> pb.VersionResponse:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with serving(path, limit=0.05, Version=never) as client:
        call = client.Version(b"", timeout=30)
        await asyncio.wait_for(began.wait(), 20)
    assert ended.is_set(), "stop returns when the handlers have ended"
    with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
        await call
