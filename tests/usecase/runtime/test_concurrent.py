"""Two callers at once, and verbs that meet in the middle of each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from crishim.checkpoint.record import Carrier
from crishim.engine.simulated import Fail, Hang, Slow
from crishim.errors import EngineError, EngineTimeout, NameReserved, NetworkFailed, SandboxNotReady
from crishim.network.api import Attached, PodAttachment
from crishim.testing.faults import Case, Outcome, sweep_cancellations
from tests.usecase.runtime.scenarios import SCENARIOS
from tests.usecase.runtime.world import HOST_NETWORK, World

EACH_CARRIER = True


async def both(*tasks: asyncio.Task[object]) -> list[BaseException | object]:
    return await asyncio.gather(*tasks, return_exceptions=True)


TWICE = [
    name
    for name, scenario in SCENARIOS.items()
    if scenario.carrier is Carrier.PAUSE and not name.startswith(("run", "create"))
]


@pytest.mark.parametrize("later", [0, 1, 3, 10])
@pytest.mark.parametrize("name", TWICE)
async def test_two_callers_at_once_both_succeed(world: World, name: str, later: int) -> None:
    ids = await SCENARIOS[name].prepare(world)
    call = SCENARIOS[name].bound(world, ids)
    first = world.background(call())
    for _ in range(later):
        await asyncio.sleep(0)
    second = world.background(call())
    assert [result for result in await both(first, second) if isinstance(result, BaseException)] == []
    await world.check_consistent()


@pytest.mark.parametrize("name", ["run", "create"])
async def test_the_same_name_twice_at_once(world: World, carrier: Carrier, name: str) -> None:
    """The second waits, and is refused when the first has succeeded."""
    ids = await SCENARIOS[name].prepare(world)
    call = SCENARIOS[name].bound(world, ids)
    results = await both(world.background(call()), world.background(call()))
    assert isinstance(results[0], str)
    assert isinstance(results[1], NameReserved)
    assert world.engine.calls["create"] == (1 if name == "run" else 2 if carrier is Carrier.PAUSE else 3)


@pytest.mark.parametrize("name", ["run", "create"])
async def test_the_second_of_a_name_succeeds_when_the_first_fails(world: World, name: str) -> None:
    ids = await SCENARIOS[name].prepare(world)
    call = SCENARIOS[name].bound(world, ids)
    world.engine.script("create", Fail(EngineError("no")))
    results = await both(world.background(call()), world.background(call()))
    assert isinstance(results[0], EngineError)
    assert isinstance(results[1], str)


# --- Stop and Run


@pytest.mark.pause
@pytest.mark.parametrize("verb", ["stop", "remove"])
@pytest.mark.parametrize("step", ["attach", "start", "inspect", "pin", "put"])
async def test_a_run_under_way_is_ended(world: World, verb: str, step: str) -> None:
    """In each of its steps, however long it would take."""
    ids: list[str] = []
    unsubscribe = world.rt.index.subscribe(lambda change: ids.append(change.after.id) if change.after else None)
    if step == "attach":
        world.network.script("attach", Slow(20))
    elif step in ("start", "inspect"):
        world.engine.script(step, Slow(20))
    else:
        target, name = (world.namespaces, "pin") if step == "pin" else (world.store, "put")
        original = getattr(target, name)

        async def slow(*args: object) -> None:
            setattr(target, name, original)
            await asyncio.sleep(20)
            await original(*args)

        setattr(target, name, slow)
    run = world.background(world.run())
    await world.until(lambda: bool(ids), 1)
    await asyncio.sleep(1)
    assert world.state(ids[0]) == "NOTREADY"
    await (world.stop(ids[0]) if verb == "stop" else world.remove(ids[0]))
    unsubscribe()
    (result,) = await both(run)
    assert isinstance(result, SandboxNotReady), result
    assert (world.states(), world.network.held, world.namespaces.held) == ({}, {}, {})
    assert world.engine.containers == ()
    again = await world.run()
    assert world.states() == {again: "READY"}


async def test_a_stop_in_every_turn_of_a_run(tmp_path: Path) -> None:
    """Once Stop has returned, the pod is not up and does not come up, wherever the Run was."""
    stopped_once = False
    for turns in range(300):
        world = World(tmp_path / str(turns))
        await world.start()
        run = world.background(world.run())
        for _ in range(turns):
            await asyncio.sleep(0)
        done, listed = run.done(), list(world.states())
        for sandbox in listed:
            await world.stop(sandbox)
        (result,) = await both(run)
        stopped = isinstance(result, SandboxNotReady)
        stopped_once |= stopped
        assert stopped or isinstance(result, str)
        assert stopped == (bool(listed) and not done)
        assert ("READY" in world.states().values()) == (not listed)
        await world.check_consistent()
        await world.check_removable()
        await world.close()
        if done:
            assert stopped_once
            return
    pytest.fail("the run never ended")


async def test_a_run_that_was_stopped_and_cannot_be_undone_stays_listed(world: World) -> None:
    world.network.script("attach", Hang())
    world.network.script("detach", Fail(NetworkFailed("DEL failed")), times=2)
    run = world.background(world.run())
    await world.network.called("attach")
    (sandbox,) = world.states()
    with pytest.raises(NetworkFailed):
        await world.stop(sandbox)
    (result,) = await both(run)
    assert isinstance(result, SandboxNotReady)
    assert world.states() == {sandbox: "NOTREADY"}
    assert sandbox in world.network.held
    await world.stop(sandbox)
    assert world.network.held == {}
    assert world.network.dels[sandbox] == 1


async def test_a_deadline_in_the_middle_of_an_attach(world: World) -> None:
    """What gRPC does when a caller's deadline is over."""
    world.network.script("attach", Slow(20))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await world.run()
    await world.quiet()
    assert (world.states(), world.network.held) == ({}, {})
    assert world.network.adds.total() == world.network.dels.total() == 1


async def test_stop_fails_as_long_as_the_network_cannot_be_given_back(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    world.network.script("detach", Fail(NetworkFailed("DEL failed")), times=3)
    for verb in (world.stop, world.remove, world.stop):
        with pytest.raises(NetworkFailed):
            await verb(sandbox)
        assert world.states() == {sandbox: "NOTREADY", container: "EXITED"}
        assert sandbox in world.namespaces.held  # DEL needs it
    await world.remove(sandbox)
    await world.check_nothing_left()


async def test_a_plugin_may_ask_about_its_pod_and_run_one(world: World) -> None:
    """While ADD is open no lock of ours keeps a plugin, or its daemon, from what it asks."""
    attach = world.network.attach
    seen: list[str] = []

    async def asking(pod: PodAttachment, planned: Attached) -> Attached:
        world.network.attach = attach  # type: ignore[method-assign]
        seen.append(world.state(pod.sandbox_id))
        daemon = await world.run(name="daemon", linux=HOST_NETWORK)
        await world.run_container(daemon)
        await world.update_pod(pod.sandbox_id, cpu_shares=3)
        return await attach(pod, planned)

    world.network.attach = asking  # type: ignore[method-assign]
    async with asyncio.timeout(5):
        sandbox = await world.run()
    assert seen == ["NOTREADY"]
    found = world.rt.index.need_sandbox(sandbox)
    assert found.ready
    assert found.record.resources is not None
    await world.check_consistent()


# --- containers


async def test_a_second_stop_with_a_shorter_timeout_wins(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox, command=("serve", "ignore-term"))
    loop = asyncio.get_running_loop()
    began = loop.time()
    first = world.background(world.stop_container(container, 30))
    await asyncio.sleep(1)
    await world.stop_container(container, 0)
    await first
    assert loop.time() - began < 1.1
    assert world.rt.index.need_container(container).exit_code == 137


async def test_a_second_stop_with_a_longer_timeout_does_not_hold_the_first(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox, command=("serve", "ignore-term"))
    loop = asyncio.get_running_loop()
    began = loop.time()
    second = world.background(world.stop_container(container, 100))
    await world.stop_container(container, 5)
    await second
    assert 5 <= loop.time() - began < 5.1


async def test_a_cancelled_stop_neither_kills_nor_blocks(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox, command=("serve", "ignore-term"))
    stop = world.background(world.stop_container(container, 30))
    await asyncio.sleep(1)
    stop.cancel()
    await both(stop)
    await asyncio.sleep(60)
    assert world.state(container) == "RUNNING"
    await world.update_container(container, cpu_shares=100)
    await world.stop_container(container, 0)
    assert world.state(container) == "EXITED"


async def test_a_signal_that_is_not_answered_does_not_kill_early(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    world.engine.script("kill", Fail(EngineTimeout("busy")))
    with pytest.raises(EngineTimeout):
        await world.stop_container(container, 30)
    assert world.state(container) == "RUNNING"


async def test_a_grace_without_end(world: World) -> None:
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    await world.stop_container(container, 2**63 - 1)
    assert world.state(container) == "EXITED"


async def test_stop_waits_for_a_start_under_way(world: World) -> None:
    sandbox = await world.run()
    container = await world.create(sandbox)
    world.engine.script("start", Slow(2))
    start = world.background(world.start_container(container))
    await asyncio.sleep(1)
    await world.stop_container(container, 0)
    await start
    assert world.state(container) == "EXITED"


async def test_a_cancelled_start_tells_the_truth(world: World) -> None:
    sandbox = await world.run()
    container = await world.create(sandbox)
    world.engine.script("start", Slow(2))
    start = world.background(world.start_container(container))
    await asyncio.sleep(1)
    start.cancel()
    await both(start)
    assert world.state(container) == "RUNNING"


@pytest.mark.parametrize("name", ["stop", "remove running", "remove container", "stop container", "start"])
async def test_one_of_two_callers_is_cancelled(tmp_path: Path, name: str) -> None:
    """Wherever it is, the other one succeeds."""
    scenario = SCENARIOS[name]

    @asynccontextmanager
    async def case() -> AsyncIterator[Case]:
        world = World(tmp_path)
        await world.start()
        ids = await scenario.prepare(world)
        others: list[asyncio.Task[object]] = []

        async def run() -> None:
            others.append(world.background(scenario.bound(world, ids)()))
            await scenario.bound(world, ids)()

        async def check(outcome: Outcome) -> None:
            assert [r for r in await both(*others) if isinstance(r, BaseException)] == []
            await world.check_consistent()
            await world.check_removable()

        yield Case(run=run, check=check)
        await world.close()

    assert await sweep_cancellations(case, limit=1000, moments=("waiting",)) >= 1
