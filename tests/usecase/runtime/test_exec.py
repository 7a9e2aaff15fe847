"""Exec, ExecSync, attach and port-forward on fakes: what is refused, what is killed, what the engine does to them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crishim.engine.simulated import Drop, Fail, Hang
from crishim.errors import (
    ContainerNotFound,
    ContainerNotRunning,
    CRIError,
    EngineError,
    EngineUnavailable,
    ExecFailed,
    ExecTimeout,
    InvalidArgument,
    Kind,
    PortForwardFailed,
    SandboxNotFound,
    SandboxNotReady,
)
from crishim.model.streams import OutputStream, WantedStreams
from crishim.runtime.container_attach import prepare_attach
from crishim.runtime.container_exec import prepare_exec
from crishim.runtime.container_exec_sync import OUTPUT_LIMIT, ExecResult
from crishim.runtime.sandbox_port_forward import prepare_port_forward
from tests.usecase.runtime.world import HOST_NETWORK, World

OUTPUT = WantedStreams(tty=False, stdin=False, stdout=True, stderr=True)
STDIN = WantedStreams(tty=False, stdin=True, stdout=True, stderr=False)
TERMINAL = WantedStreams(tty=True, stdin=True, stdout=True, stderr=False)


@pytest.fixture
async def container(world: World) -> str:
    return await world.run_container(await world.run())


async def test_output_and_exit_code(world: World, container: str) -> None:
    assert await world.exec_sync(container, "echo", "hello") == (b"hello\n", 0)
    assert await world.exec_sync(container[:13], "sh", "-c", "exit 255", timeout=5) == (b"", 255)


async def test_no_timeout_is_none(world: World, container: str) -> None:
    assert await world.exec_sync(container, "sleep", "100000") == (b"", 0)


async def test_timeout_kills(world: World, container: str) -> None:
    began = asyncio.get_running_loop().time()
    with pytest.raises(ExecTimeout) as caught:
        await world.exec_sync(container, "sleep", "333", timeout=2)
    assert caught.value.kind is Kind.DEADLINE_EXCEEDED
    assert 2 <= asyncio.get_running_loop().time() - began < 3
    assert world.engine.execs == 0
    assert world.state(container) == "RUNNING"


async def test_timeout_answers_in_time_though_the_engine_hangs(world: World, container: str) -> None:
    world.engine.script("exec_kill", Hang())
    began = asyncio.get_running_loop().time()
    with pytest.raises(ExecTimeout):
        await world.exec_sync(container, "sleep", "333", timeout=2)
    assert asyncio.get_running_loop().time() - began < 3


async def test_killed_when_the_engine_is_back(world: World, container: str) -> None:
    call = world.background(world.exec_sync(container, "sleep", "333", timeout=2))
    await world.engine.called("exec_start")
    await asyncio.sleep(1)
    world.engine.script("exec_kill", Fail(EngineUnavailable("gone")), times=3)
    with pytest.raises(ExecTimeout):
        await call
    assert world.engine.execs == 1
    await world.until(lambda: world.engine.execs == 0)


async def test_cancelled_call_kills(world: World, container: str) -> None:
    call = world.background(world.exec_sync(container, "sleep", "333"))
    await world.engine.called("exec_start")
    await asyncio.sleep(1)
    assert world.engine.execs == 1
    call.cancel()
    await world.until(lambda: world.engine.execs == 0)


async def test_start_whose_answer_was_lost_is_killed(world: World, container: str) -> None:
    world.engine.script("exec_start", Drop())
    with pytest.raises(EngineUnavailable):
        await world.exec_sync(container, "sleep", "333")
    await world.until(lambda: world.engine.execs == 0)
    world.engine.script("exec_start", Drop())
    with pytest.raises(EngineUnavailable):
        await world.exec(container, "sleep", "333")
    await world.until(lambda: world.engine.execs == 0)


async def test_what_cannot_start_is_an_error_and_no_output(world: World, container: str) -> None:
    with pytest.raises(ExecFailed, match="no such file") as caught:
        await world.exec_sync(container, "/missing/probe")
    assert "/missing/probe" in str(caught.value)
    with pytest.raises(ExecFailed, match="/missing/shell"):
        await world.exec(container, "/missing/shell")


def test_output_above_the_limit_is_dropped() -> None:
    result = ExecResult(bytearray(), bytearray())
    block = b"x" * (1 << 20)
    for _ in range(20):
        result.add(OutputStream.STDOUT, block)
        result.add(OutputStream.STDERR, b"y")
    assert len(result.stdout) + len(result.stderr) == OUTPUT_LIMIT
    assert OUTPUT_LIMIT < 16 << 20
    assert len(result.stderr) == 15


@pytest.mark.parametrize(
    ("command", "timeout", "field"), [((), 0, "cmd"), (("",), 0, "cmd"), (("true",), -1, "timeout")]
)
async def test_bad_exec_sync(world: World, container: str, command: tuple[str, ...], timeout: int, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await world.exec_sync(container, *command, timeout=timeout)
    assert caught.value.field == field


async def test_only_running_containers(world: World, container: str) -> None:
    pod = world.rt.index.need_container(container).sandbox_id
    created = await world.create(pod, name="second")
    exited = await world.run_container(pod, name="third", command=("true",))
    await world.quiet()
    for container_id, error in (
        ("", ContainerNotFound),
        ("nobody", ContainerNotFound),
        (pod, ContainerNotFound),
        (created, ContainerNotRunning),
        (exited, ContainerNotRunning),
    ):
        with pytest.raises(error):
            await world.exec_sync(container_id, "true")
        with pytest.raises(error):
            prepare_exec(world.rt, container_id, ("true",), OUTPUT)
        with pytest.raises(error):
            prepare_attach(world.rt, container_id, OUTPUT)
    assert world.engine.calls["exec"] == 0


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (WantedStreams(tty=False, stdin=False, stdout=False, stderr=False), "stdout"),
        (WantedStreams(tty=True, stdin=True, stdout=True, stderr=True), "stderr"),
    ],
)
async def test_bad_streams(world: World, container: str, wanted: WantedStreams, field: str) -> None:
    for prepare in (
        lambda: prepare_exec(world.rt, container, ("sh",), wanted),
        lambda: prepare_attach(world.rt, container, wanted),
    ):
        with pytest.raises(InvalidArgument) as caught:
            prepare()
        assert caught.value.field == field


async def test_attach_is_as_the_container(world: World, container: str) -> None:
    pod = world.rt.index.need_container(container).sandbox_id
    terminal = await world.run_container(pod, name="terminal", tty=True, stdin=True)
    for container_id, wanted, field in (
        (container, TERMINAL, "tty"),
        (container, STDIN, "stdin"),
        (terminal, STDIN, "tty"),
    ):
        with pytest.raises(InvalidArgument) as caught:
            prepare_attach(world.rt, container_id, wanted)
        assert caught.value.field == field
    assert prepare_attach(world.rt, terminal, TERMINAL).wanted == TERMINAL


async def test_stdin_once(world: World) -> None:
    pod = await world.run()
    once = await world.run_container(pod, name="once", command=("cat",), stdin=True, stdin_once=True)
    for_ever = await world.run_container(pod, name="ever", command=("cat",), stdin=True)
    for container_id in (once, for_ever):
        streams = await world.attach(container_id)
        await streams.write(b"hello")
        await streams.close_stdin()
        await streams.close()
    await world.until(lambda: world.state(once) == "EXITED")
    assert world.state(for_ever) == "RUNNING"


async def test_container_that_ends_before_its_client_comes(world: World, container: str) -> None:
    prepared = prepare_exec(world.rt, container, ("true",), OUTPUT), prepare_attach(world.rt, container, OUTPUT)
    await world.stop_container(container)
    for process in prepared:
        with pytest.raises(ContainerNotRunning):
            await process.start(None)
    await world.remove_container(container)
    for process in prepared:
        with pytest.raises(ContainerNotFound):
            await process.start(None)


@pytest.mark.parametrize("call", ["exec_sync", "exec", "attach"])
async def test_container_that_the_engine_knows_to_have_ended(world: World, container: str, call: str) -> None:
    """The index learns of it by the refusal, should the event have been lost."""

    def ask() -> Awaitable[Any]:
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "exec_sync": lambda: world.exec_sync(container, "true"),
            "exec": lambda: world.exec(container, "true"),
            "attach": lambda: world.attach(container, stdin=False),
        }
        return calls[call]()

    world.engine.drop_events(5)
    world.engine.finish(container)
    with pytest.raises(ContainerNotRunning):
        await ask()
    await world.until(lambda: world.state(container) == "EXITED", 3)
    world.engine.drop_events(5)
    world.engine.vanish(container)


async def test_engine_that_is_away(world: World, container: str) -> None:
    call = world.background(world.exec_sync(container, "sleep", "333"))
    await world.engine.called("exec_start")
    await asyncio.sleep(1)
    world.engine.go_down()
    with pytest.raises(EngineUnavailable):
        await call
    with pytest.raises(EngineUnavailable):
        await world.exec_sync(container, "true")
    world.engine.come_back()
    await world.until(lambda: world.engine.execs == 0)


async def test_probes_leave_the_index_alone(world: World, container: str) -> None:
    before = world.rt.index.need_container(container).revision
    inspects = world.engine.calls["inspect"]
    await asyncio.gather(*(world.exec_sync(container, "true") for _ in range(200)))
    await world.quiet()
    assert world.rt.index.need_container(container).revision == before
    assert world.engine.calls["inspect"] == inspects


# --- port-forward


async def test_bad_forwards(world: World) -> None:
    pod = await world.run()
    for ports in ((0,), (80, -1), (65536,)):
        with pytest.raises(InvalidArgument):
            prepare_port_forward(world.rt, pod, ports)
    for unknown in ("", "nobody"):
        with pytest.raises(SandboxNotFound):
            prepare_port_forward(world.rt, unknown, (80,))
    await world.stop(pod)
    with pytest.raises(SandboxNotReady):
        prepare_port_forward(world.rt, pod, (80,))


@pytest.mark.parametrize("host", [False, True])
async def test_forward_connects_where_the_pod_is(world: World, host: bool) -> None:
    pod = await (world.run(linux=HOST_NETWORK) if host else world.run())
    sandbox = world.rt.index.need_sandbox(pod)
    path = f"/proc/{sandbox.pid}/ns/net" if host else world.namespaces.path(pod)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        world.namespaces.listeners[path, 80] = listener.getsockname()[1]
        forward = prepare_port_forward(world.rt, pod, ())
        with await forward.connect(80) as connected:
            assert connected.getpeername() == listener.getsockname()
            assert not connected.getblocking()
    with pytest.raises(PortForwardFailed, match="81"):
        await forward.connect(81)
    narrow = prepare_port_forward(world.rt, pod, (80,))
    with pytest.raises(InvalidArgument, match="81"):
        await narrow.connect(81)


@pytest.mark.parametrize("how", ["stop", "remove", "die"])
async def test_forward_ends_with_its_pod(world: World, how: str) -> None:
    pod = await world.run()
    other = await world.run(name="other")
    forward = prepare_port_forward(world.rt, pod, (80,))
    over = world.background(forward.ended())
    await world.stop(other)
    await asyncio.sleep(1)
    assert not over.done()
    if how == "stop":
        await world.stop(pod)
    elif how == "remove":
        await world.remove(pod)
    else:
        world.engine.finish(pod)
    await world.until(over.done, 3)
    await forward.ended()
    with pytest.raises(CRIError):
        await forward.connect(80)


async def test_refused_exec(world: World, container: str) -> None:
    world.engine.script("exec", Fail(EngineError("no room", kind=Kind.INTERNAL)))
    with pytest.raises(EngineError, match="no room"):
        await world.exec_sync(container, "true")
