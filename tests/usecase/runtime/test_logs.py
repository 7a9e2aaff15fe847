"""Where a container's log is to be found, what is in it when, and how far it is after a restart of the server."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from crishim.engine.simulated import Fail
from crishim.engine.values import ContainerSpec
from crishim.errors import ContainerNotRunning, EngineError, LogFailed
from crishim.logs.inline import InlineLogWriter
from crishim.model import ContainerConfig, ContainerMetadata, ImageSpec, PodSandboxConfig
from crishim.runtime import labels
from crishim.runtime.container_create import create_container
from crishim.runtime.container_reopen_log import reopen_container_log
from crishim.runtime.logs import EXIT_LIMIT
from tests.usecase.runtime.world import World


def log_of(world: World, container_id: str) -> Path:
    return Path(world.rt.index.need_container(container_id).log_path)


def said(log: Path) -> str:
    return "".join(line.split(" ", 3)[3] + "\n" for line in log.read_text().splitlines())


@pytest.mark.parametrize("unread", [False, True])
async def test_a_log_in_another_folder_than_the_sandboxs(world: World, tmp_path: Path, *, unread: bool) -> None:
    """CreateContainer may tell one of its own, and that is where the log lies after a restart, too."""
    sandbox = await world.run()
    config = ContainerConfig(
        metadata=ContainerMetadata(name="main"),
        image=ImageSpec(image="busybox"),
        command=("serve",),
        log_path="main.log",
    )
    pod_config = PodSandboxConfig(log_directory=str(tmp_path / "elsewhere"))
    container = await create_container(world.rt, sandbox, config, pod_config)
    await world.start_container(container)
    if unread:
        await world.node.close()
        refused = Fail(EngineError("by the test"))
        line = world.engine.script("inspect", refused, times=None, match=lambda asked: asked == container)
        await world.start()
        assert world.state(container) == "UNKNOWN"
        line.cancel()
        await world.until(lambda: world.state(container) == "RUNNING", 5)
    else:
        await world.restart()
    assert log_of(world, container) == tmp_path / "elsewhere" / "main.log"
    world.engine.say(container, b"after\n")
    await world.remove(sandbox)
    assert said(tmp_path / "elsewhere" / "main.log") == "after\n"


async def test_an_images_labels_write_no_log_anywhere(world: World, tmp_path: Path) -> None:
    """They become those of any container that is made of it, by hand, too."""
    sandbox = await world.run()
    target = tmp_path / "cron.d" / "job"
    target.parent.mkdir()
    spoofed = {
        labels.TYPE: labels.CONTAINER,
        labels.SANDBOX_ID: sandbox,
        labels.LOG_PATH: str(target),
        "io.kubernetes.container.name": "x",
    }
    stranger = await world.engine.create("by-hand", ContainerSpec(image="busybox", command=("serve",), labels=spoofed))
    await world.engine.start(stranger)
    world.engine.say(stranger, b"* * * * * root true\n")
    await world.node.compare()
    assert world.rt.index.container(stranger) is None
    assert not target.exists()
    await world.engine.remove(stranger)


@pytest.mark.parametrize("kill", [False, True])
async def test_what_is_said_while_no_server_lives(world: World, *, kill: bool) -> None:
    sandbox = await world.run()
    runs, ends = await world.run_container(sandbox, name="runs"), await world.run_container(sandbox, name="ends")
    for container in (runs, ends):
        world.engine.say(container, b"before\n")
        await reopen_container_log(world.rt, container)
        world.engine.say(container, b"unseen\n")
    await (world.server.kill() if kill else world.node.close())
    for container in (runs, ends):
        world.engine.say(container, b"meanwhile\n")
    world.engine.finish(ends)
    await world.start()
    assert world.state(ends) == "EXITED"
    assert said(log_of(world, ends)) == "before\nunseen\nmeanwhile\n"
    world.engine.say(runs, b"after\n")
    world.engine.finish(runs)
    await world.until(lambda: world.state(runs) == "EXITED", 5)
    assert said(log_of(world, runs)) == "before\nunseen\nmeanwhile\nafter\n"
    assert world.rt.index.need_container(runs).record.log_complete


async def test_a_lost_store_does_not_double_a_log(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    world.engine.say(container, b"one\ntwo\n")
    await reopen_container_log(world.rt, container)
    await world.server.kill()
    for record in (await world.store.load()).records:
        await world.store.delete(record.id)
    world.engine.say(container, b"three\n")
    await world.start()
    world.engine.finish(container)
    await world.until(lambda: world.state(container) == "EXITED", 5)
    assert said(log_of(world, container)) == "one\ntwo\nthree\n"


async def test_a_restart_behind_our_back_goes_on_with_the_log(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    world.engine.say(container, b"first life\n")
    world.engine.finish(container, 1)
    await world.until(lambda: world.state(container) == "EXITED", 5)
    await world.engine.start(container)
    await world.until(lambda: world.state(container) == "RUNNING", 5)
    world.engine.say(container, b"second life\n")
    await world.stop_container(container)
    assert said(log_of(world, container)) == "first life\nsecond life\n"


async def test_a_start_failure_has_an_empty_log_and_no_writer(world: World) -> None:
    sandbox = await world.run()
    container = await world.create(sandbox, command=("/missing",))
    with pytest.raises(EngineError.__mro__[1]):
        await world.start_container(container)
    assert world.state(container) == "EXITED"
    assert log_of(world, container).read_bytes() == b""
    with pytest.raises(ContainerNotRunning):
        await reopen_container_log(world.rt, container)


async def test_a_container_without_a_log(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox, log_path="")
    world.engine.say(container, b"to nobody\n")
    with pytest.raises(LogFailed):
        await reopen_container_log(world.rt, container)
    await world.stop_container(container)
    assert world.state(container) == "EXITED"


async def test_an_end_is_told_though_the_log_cannot_be_completed(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    room = asyncio.Event()
    complete = InlineLogWriter.complete

    async def wait_for_room(self: InlineLogWriter, container_id: str) -> object:
        await room.wait()
        return await complete(self, container_id)

    monkeypatch.setattr(InlineLogWriter, "complete", wait_for_room)
    world.engine.say(container, b"last words\n")
    began = asyncio.get_running_loop().time()
    world.engine.finish(container)
    await world.until(lambda: world.state(container) == "EXITED", EXIT_LIMIT + 1)
    assert asyncio.get_running_loop().time() - began >= EXIT_LIMIT
    assert "not complete after 2 s" in caplog.text
    assert world.rt.logs.state()["exits_before_log"] == 1
    assert world.rt.logs.state()["late_lines"] == 0
    assert log_of(world, container).read_bytes() == b""
    room.set()
    await world.until(lambda: world.rt.index.need_container(container).record.log_complete, 5)
    assert said(log_of(world, container)) == "last words\n"
    assert world.rt.logs.state()["late_lines"] == 1


async def test_a_log_that_cannot_be_opened_again_is_told_and_the_rest_goes_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    log = log_of(world, container)
    await world.server.kill()
    shutil.rmtree(log.parent)
    log.parent.write_text("in the way")
    await world.start()
    assert world.state(container) == "RUNNING"
    assert f"{log.parent}" in caplog.text
    log.parent.unlink()
