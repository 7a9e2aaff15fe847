"""Containers of another shim, whose output the engine keeps where only its API finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from crishim.engine.simulated import Fail, Slow
from crishim.errors import EngineUnavailable, LogFailed
from crishim.runtime.container_reopen_log import reopen_container_log
from tests.usecase.runtime.test_logs import log_of, said
from tests.usecase.runtime.world import World


async def adopted(world: World, driver: str = "local") -> str:
    """A running container with another log driver than ours have."""
    container = await world.create(await world.run())
    world.engine.keep_log_with(container, driver)
    await world.restart(kill=True)
    await world.start_container(container)
    return container


def spools(world: World) -> list[str]:
    return [path.name for path in (world.folder / "spools").glob("*")]


async def test_it_is_written_and_rotated_like_any_other(world: World) -> None:
    container = await adopted(world)
    log = log_of(world, container)
    world.engine.say(container, b"one\n")
    world.engine.say(container, b"two\n" + b"x" * 20_000 + b"\n", "stderr")
    await world.until(lambda: b"xx" in (world.folder / "spools" / container / f"{container}-json.log").read_bytes(), 5)
    old = log.rename(f"{log}.old")
    await reopen_container_log(world.rt, container)
    world.engine.say(container, b"three\n")
    world.engine.finish(container)
    await world.until(lambda: world.state(container) == "EXITED", 5)
    lines = [line.split(" ", 3)[1:] for line in old.read_text().splitlines()]
    assert lines[:2] == [["stdout", "F", "one"], ["stderr", "F", "two"]]
    assert [tag for _, tag, _ in lines[2:]] == ["P", "F"]
    assert "".join(text for *_, text in lines[2:]) == "x" * 20_000
    assert said(log) == "three\n"
    assert world.rt.index.need_container(container).record.log_complete
    await world.remove_container(container)
    assert spools(world) == []


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("ends", [False, True])
async def test_the_server_was_away(world: World, *, kill: bool, ends: bool) -> None:
    container = await adopted(world)
    world.engine.say(container, b"one\n")
    await reopen_container_log(world.rt, container)
    world.engine.say(container, b"two\n")
    await (world.server.kill() if kill else world.node.close())
    world.engine.say(container, b"three\n")
    if ends:
        world.engine.finish(container)
    await world.start()
    if not ends:
        world.engine.say(container, b"four\n")
        world.engine.finish(container)
    await world.until(lambda: world.state(container) == "EXITED", 5)
    assert said(log_of(world, container)) == "one\ntwo\nthree\n" + ("" if ends else "four\n")


async def test_the_engine_was_away(world: World) -> None:
    container = await adopted(world)
    world.engine.say(container, b"one\n")
    await world.quiet()
    world.engine.go_down()
    world.engine.say(container, b"two\n")
    await world.until(lambda: world.rt.link.error is not None, 5)
    world.engine.come_back()
    await world.until(lambda: world.rt.link.error is None, 60)
    world.engine.say(container, b"three\n")
    world.engine.finish(container)
    await world.until(lambda: world.state(container) == "EXITED", 60)
    await world.until(lambda: world.rt.index.need_container(container).record.log_complete, 60)
    assert said(log_of(world, container)) == "one\ntwo\nthree\n"


async def test_an_engine_that_cannot_be_asked_at_first(world: World, caplog: pytest.LogCaptureFixture) -> None:
    container = await world.create(await world.run())
    world.engine.keep_log_with(container, "local")
    await world.restart(kill=True)
    world.engine.script("read_log", Fail(EngineUnavailable("by the test")), times=2)
    await world.start_container(container)
    world.engine.say(container, b"one\n")
    assert "is not read: by the test" in caplog.text
    for _ in range(2):
        await world.node.compare()
    world.engine.finish(container)
    await world.until(lambda: world.state(container) == "EXITED", 5)
    assert said(log_of(world, container)) == "one\n"


async def test_a_driver_that_keeps_nothing_is_told_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    container = await adopted(world, "none")
    world.engine.say(container, b"to nobody\n")
    with pytest.raises(LogFailed):
        await reopen_container_log(world.rt, container)
    for _ in range(2):
        await world.node.compare()
    world.engine.finish(container)
    await world.until(lambda: world.state(container) == "EXITED", 1)
    assert not log_of(world, container).exists()
    told = [line for line in caplog.messages if "has no log, its log driver being none" in line]
    assert len(told) == 1
    assert "does not support reading" in told[0]


async def test_a_second_life_is_added_to_the_first(world: World) -> None:
    container = await adopted(world)
    world.engine.say(container, b"first life\n")
    world.engine.finish(container, 1)
    await world.until(lambda: world.state(container) == "EXITED", 5)
    await world.engine.start(container)
    await world.until(lambda: world.state(container) == "RUNNING", 5)
    world.engine.say(container, b"second life\n")
    await world.stop_container(container)
    assert said(log_of(world, container)) == "first life\nsecond life\n"


async def test_a_spool_that_cannot_be_made_is_told_and_tried_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    (world.folder / "spools").write_text("in the way")
    container = await adopted(world)
    assert world.state(container) == "RUNNING"
    assert f"is not read: {world.folder}/spools" in caplog.text
    world.engine.say(container, b"one\n")
    (world.folder / "spools").unlink()
    await world.node.compare()
    await world.stop_container(container)
    assert said(log_of(world, container)) == "one\n"


async def test_what_a_gone_container_left_is_removed(world: World) -> None:
    container = await adopted(world)
    world.engine.say(container, b"one\n")
    await world.quiet()
    assert spools(world) == [container]
    await world.server.kill()
    world.engine.vanish(container)
    await world.start()
    assert spools(world) == []


async def test_a_start_that_is_cancelled_while_the_engine_is_asked(world: World) -> None:
    container = await world.create(await world.run())
    world.engine.keep_log_with(container, "local")
    await world.restart(kill=True)
    world.engine.script("read_log", Slow(5.0))
    starting = world.background(world.start_container(container))
    await world.engine.called("read_log")
    starting.cancel()
    await world.quiet()
    world.engine.say(container, b"one\n")
    await world.node.compare()
    await world.stop_container(container)
    assert said(Path(log_of(world, container))) == "one\n"
