"""Failures on order, and an engine that goes away and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from crishim.engine.api import Engine
from crishim.engine.simulated import Drop, Fail, Hang, SimulatedEngine, Slow, VirtualClock, settle
from crishim.engine.values import ContainerSpec, EngineResources, RegistryAuth
from crishim.errors import EngineError, EngineUnavailable, RegistryUnavailable
from crishim.model.streams import WantedStreams

OUTPUT = WantedStreams(tty=False, stdin=False, stdout=True, stderr=True)
SPEC = ContainerSpec(image="busybox", labels={})


async def test_fail_happens_instead_of_the_effect(engine: SimulatedEngine) -> None:
    line = engine.script("create", Fail(EngineError("disk full")))
    with pytest.raises(EngineError, match="disk full"):
        await engine.create("name", SPEC)
    assert engine.containers == ()
    await engine.create("name", SPEC)
    assert line.hits == 1
    assert engine.calls["create"] == 2


async def test_drop_happens_after_the_effect(engine: SimulatedEngine) -> None:
    engine.script("create", Drop())
    with pytest.raises(EngineUnavailable):
        await engine.create("name", SPEC)
    assert [container.name for container in engine.containers] == ["name"]


@pytest.mark.parametrize("after", [False, True])
async def test_hang_lasts_until_the_caller_gives_up(engine: SimulatedEngine, after: bool) -> None:
    engine.script("create", Hang(after_effect=after))
    task = asyncio.create_task(engine.create("name", SPEC))
    await engine.called("create")
    await settle()
    assert engine.hanging == 1
    assert len(engine.containers) == after
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert engine.hanging == 0


async def test_slow_takes_the_clock_s_time(engine: SimulatedEngine, clock: VirtualClock) -> None:
    engine.script("create", Slow(2))
    task = asyncio.create_task(engine.create("name", SPEC))
    await clock.run_for(1.9)
    assert not task.done()
    assert engine.containers == ()
    await clock.run_for(0.1)
    assert task.done()


async def test_times_and_match(engine: SimulatedEngine) -> None:
    error = Fail(EngineError("no"))
    engine.script("create", error, times=2, match=lambda name, spec: name.startswith("b"))
    always = engine.script("inspect", error, times=None)
    await engine.create("a1", SPEC)
    for _ in range(2):
        with pytest.raises(EngineError):
            await engine.create("b1", SPEC)
    await engine.create("b1", SPEC)
    for _ in range(5):
        with pytest.raises(EngineError):
            await engine.inspect("b1")
    always.cancel()
    assert (await engine.inspect("b1")).name == "b1"
    assert always.hits == 5


async def test_lines_strike_in_their_order(engine: SimulatedEngine) -> None:
    engine.script("create", Fail(EngineError("first")))
    engine.script("create", Fail(EngineError("second")))
    for text in ("first", "second"):
        with pytest.raises(EngineError, match=text):
            await engine.create("name", SPEC)


def test_only_methods_of_the_interface_can_be_scripted(engine: SimulatedEngine) -> None:
    with pytest.raises(ValueError, match="pul"):
        engine.script("pul", Hang())


async def test_every_method_is_refused_while_down_and_counted(engine: SimulatedEngine) -> None:
    async def enter_events() -> None:
        async with engine.events():
            pass

    async def enter_pull() -> None:
        async with engine.pull("app:1", None):
            pass

    async def enter_log() -> None:
        async with engine.read_log("x", 0, tty=False):
            pass

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "connect": engine.connect,
        "events": enter_events,
        "create": lambda: engine.create("name", SPEC),
        "start": lambda: engine.start("x"),
        "kill": lambda: engine.kill("x", "9"),
        "wait": lambda: engine.wait("x"),
        "remove": lambda: engine.remove("x"),
        "update": lambda: engine.update("x", EngineResources()),
        "inspect": lambda: engine.inspect("x"),
        "has_path": lambda: engine.has_path("x", "/etc"),
        "read_file": lambda: engine.read_file("x", "/etc/passwd"),
        "exec": lambda: engine.exec("x", ["true"], OUTPUT),
        "attach": lambda: engine.attach("x", OUTPUT, ends_stdin=False),
        "read_log": enter_log,
        "list_containers": engine.list_containers,
        "survey": lambda: engine.survey({}),
        "list_images": engine.list_images,
        "inspect_image": lambda: engine.inspect_image("x"),
        "pull": enter_pull,
        "remove_image": lambda: engine.remove_image("x"),
        "load_image": lambda: engine.load_image(b""),
    }
    assert set(calls) == {name for name in dir(Engine) if not name.startswith("_")} - {"close", "foresee"}
    engine.go_down("power cut")
    for method, call in calls.items():
        with pytest.raises(EngineUnavailable, match="power cut"):
            await call()
        assert engine.calls[method] == 1, method
    engine.come_back()
    assert (await engine.connect()).name == "simulated"


async def test_going_down_ends_what_is_under_way(engine: SimulatedEngine) -> None:
    container = await engine.create("name", SPEC)
    await engine.start(container)
    engine.script("inspect", Hang())
    engine.script("kill", Slow(100))

    async def listen() -> None:
        async with engine.events() as events:
            async for _ in events:
                pass

    async def pull() -> None:
        async with engine.pull("app:1", None) as progress:
            async for _ in progress:
                pass

    engine.script("pull", Hang())
    tasks = [
        asyncio.create_task(work)
        for work in (engine.wait(container), engine.inspect(container), engine.kill(container, "9"), listen(), pull())
    ]
    await settle()
    assert engine.pulls_under_way == engine.listening == 1
    assert not any(task.done() for task in tasks)
    engine.go_down()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(result, EngineUnavailable)
    assert engine.pulls_under_way == engine.listening == engine.hanging == 0
    engine.come_back()
    assert [shown.pid > 0 for shown in engine.containers] == [True]
    engine.go_down(containers_die=True)
    engine.come_back()
    assert (await engine.inspect(container)).exit_code == 137


async def test_close_is_for_good(engine: SimulatedEngine) -> None:
    await engine.close()
    await engine.close()
    with pytest.raises(EngineUnavailable):
        await engine.connect()
    with pytest.raises(RuntimeError):
        engine.come_back()


async def test_a_cancelled_subscriber_leaves_no_listener(engine: SimulatedEngine) -> None:
    async def listen() -> None:
        async with engine.events() as events:
            await anext(events)

    for turns in range(6):
        task = asyncio.create_task(listen())
        await settle(turns)
        task.cancel()
        await asyncio.wait([task])
        assert engine.listening == 0


async def drain(
    engine: SimulatedEngine, reference: str, auth: RegistryAuth | None = None, seen: list[str] | None = None
) -> list[str]:
    seen = [] if seen is None else seen
    async with engine.pull(reference, auth) as progress:
        async for step in progress:
            seen.append(step.stage)
    return seen


async def test_pull(engine: SimulatedEngine) -> None:
    async with engine.events() as events:
        stages = await drain(engine, "registry.example/app:1")
        assert stages[0] == "Pulling fs layer"
        assert {"Downloading", "Verifying Checksum", "Extracting"} <= set(stages)
        assert (await anext(events)).action == "pull"
    image = await engine.inspect_image("registry.example/app:1")
    assert "Already exists" in await drain(engine, "registry.example/app:1")
    await drain(engine, image.digests[0])
    assert (await engine.inspect_image(image.digests[0])).id == image.id
    assert len(await engine.list_images()) == 3


async def test_a_pull_that_is_left_or_fails_brings_nothing(engine: SimulatedEngine) -> None:
    async with engine.pull("app:1", None) as progress:
        await anext(progress)
    engine.registry_failures["app:1"] = RegistryUnavailable("no route")
    seen: list[str] = []
    with pytest.raises(RegistryUnavailable):
        await drain(engine, "app:1", seen=seen)
    assert seen == ["Pulling fs layer"]
    engine.script("pull", Fail(EngineError("bad password")), match=lambda ref, auth: auth is not None)
    with pytest.raises(EngineError, match="bad password"):
        await drain(engine, "other:1", RegistryAuth(username="u", password="p"))
    assert len(await engine.list_images()) == 2
    assert engine.pulls_under_way == 0
