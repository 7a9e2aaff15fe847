"""Containers of the simulated engine: what the contract checks do not say, because only this engine promises it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from crishim.engine.simulated import SimulatedEngine, VirtualClock, settle
from crishim.engine.values import ContainerPhase, ContainerSpec, EngineImage, EngineResources
from crishim.errors import EngineConflict, EngineError, EngineNotFound, Kind


def spec(*command: str, **more: object) -> ContainerSpec:
    return ContainerSpec(image="busybox", labels={"app": "x"}, command=command, **more)  # type: ignore[arg-type]


async def running(engine: SimulatedEngine, *command: str) -> str:
    container_id = await engine.create(f"c{len(engine.containers)}x", spec(*command))
    await engine.start(container_id)
    return container_id


async def test_same_calls_give_the_same_ids() -> None:
    async def ids(seed: str = "") -> list[str]:
        engine = SimulatedEngine(seed=seed)
        return [await engine.create(f"name{i}", spec()) for i in range(3)]

    assert await ids() == await ids()
    assert len(set(await ids()) | set(await ids("other"))) == 6
    assert all(len(i) == 64 and int(i, 16) for i in await ids())


async def test_times_come_from_the_clock_and_never_twice(engine: SimulatedEngine, clock: VirtualClock) -> None:
    created = await running(engine, "sleep", "5")
    clock.advance(5)
    shown = await engine.inspect(created)
    assert shown.phase is ContainerPhase.EXITED
    assert shown.finished_at - shown.started_at == pytest.approx(5e9, abs=1000)
    first = shown.started_at
    engine.restart_container(created)
    engine.restart_container(created)
    again = await engine.inspect(created)
    assert again.started_at > first


async def test_a_program_ends_by_the_clock(engine: SimulatedEngine, clock: VirtualClock) -> None:
    container = await running(engine, "sh", "-c", "sleep 10; exit 3")
    waiting = asyncio.create_task(engine.wait(container))
    await clock.run_for(9.9)
    assert (await engine.inspect(container)).phase is ContainerPhase.RUNNING
    assert not waiting.done()
    await clock.run_for(0.1)
    assert waiting.done()
    assert (await engine.inspect(container)).exit_code == 3


async def test_a_killed_program_does_not_end_again(engine: SimulatedEngine, clock: VirtualClock) -> None:
    container = await running(engine, "sleep", "10")
    await engine.kill(container, "SIGTERM")
    shown = await engine.inspect(container)
    assert (shown.phase, shown.exit_code, shown.pid) == (ContainerPhase.EXITED, 143, 0)
    assert clock.waiting == 0
    clock.advance(20)
    assert await engine.inspect(container) == shown


async def test_process_ids_are_none_of_the_kernel_s(engine: SimulatedEngine) -> None:
    pids = [(await engine.inspect(await running(engine))).pid for _ in range(3)]
    assert len(set(pids)) == 3
    assert min(pids) > 4194304


async def test_a_missing_program_leaves_the_container_created(engine: SimulatedEngine) -> None:
    container = await engine.create("broken", spec("/missing/x"))
    with pytest.raises(EngineError, match=r"/missing/x.*no such file"):
        await engine.start(container)
    shown = await engine.inspect(container)
    assert (shown.phase, shown.exit_code, shown.pid) == (ContainerPhase.CREATED, 127, 0)
    assert (shown.started_at, shown.finished_at) == (0, 0)
    assert "/missing/x" in shown.error


async def test_commands_come_from_spec_and_image(engine: SimulatedEngine) -> None:
    engine.images.add(
        EngineImage(
            id="sha256:" + "e" * 64, tags=("e:1",), size=1, entrypoint=("/entry",), command=("a",), env=("A=1", "B=2")
        )
    )
    for given, entrypoint, command in (
        ({}, ("/entry",), ("a",)),
        ({"command": ("b",)}, ("/entry",), ("b",)),
        ({"entrypoint": ("/own",)}, ("/own",), ()),
        ({"entrypoint": ("/own",), "command": ("b",)}, ("/own",), ("b",)),
    ):
        made = await engine.create(f"n{len(engine.containers)}", ContainerSpec(image="e:1", labels={}, **given))  # type: ignore[arg-type]
        shown = await engine.inspect(made)
        assert (shown.entrypoint, shown.command) == (entrypoint, command), given
    made = await engine.create("env", ContainerSpec(image="e:1", labels={}, env=(("B", "3"),)))
    assert set((await engine.inspect(made)).env) == {"A=1", "B=3"}


async def test_no_command_anywhere_is_refused(engine: SimulatedEngine) -> None:
    engine.images.add(EngineImage(id="sha256:" + "e" * 64, tags=("e:1",), size=1))
    with pytest.raises(EngineError, match="no command") as caught:
        await engine.create("name", ContainerSpec(image="e:1", labels={}))
    assert caught.value.kind is Kind.INVALID_ARGUMENT
    assert engine.containers == ()
    assert await engine.create("name", spec())


async def test_joining_needs_a_running_container(engine: SimulatedEngine) -> None:
    sandbox = await running(engine)
    joiner = await engine.create("joiner", spec(network_mode=f"container:{sandbox}"))
    await engine.kill(sandbox, "SIGKILL")
    with pytest.raises(EngineConflict, match="not running"):
        await engine.start(joiner)
    await engine.remove(sandbox)
    with pytest.raises(EngineConflict, match="not running"):
        await engine.start(joiner)


async def test_names_are_free_again_after_removal(engine: SimulatedEngine) -> None:
    container = await engine.create("name", spec())
    with pytest.raises(EngineConflict):
        await engine.create("/name", spec())
    await engine.remove(container)
    assert await engine.create("name", spec()) != container


@pytest.mark.parametrize("name", ["", "a", "-a", "a b", "a/b", "ä1"])
async def test_bad_names_are_refused(engine: SimulatedEngine, name: str) -> None:
    with pytest.raises(EngineError):
        await engine.create(name, spec())
    assert engine.containers == ()


async def test_memory_and_swap(engine: SimulatedEngine) -> None:
    container = await engine.create("name", spec(resources=EngineResources(memory=100, cpu_shares=2)))
    assert (await engine.inspect(container)).resources.memory_swap == 200
    with pytest.raises(EngineError):
        await engine.update(container, EngineResources(memory=300, cpu_shares=9))
    assert (await engine.inspect(container)).resources.cpu_shares == 2
    await engine.update(container, EngineResources(memory=300, memory_swap=300))
    resources = (await engine.inspect(container)).resources
    assert (resources.memory, resources.memory_swap, resources.cpu_shares) == (300, 300, 2)
    await engine.update(container, EngineResources(memory_swap=-1))
    await engine.update(container, EngineResources(memory=900))


async def test_files_for_those_who_write_them(tmp_path: Path) -> None:
    engine = SimulatedEngine(root=tmp_path)
    sandbox = await engine.create("sandbox", spec())
    shown = await engine.inspect(sandbox)
    assert Path(shown.resolv_conf_path).is_file()
    assert not Path(shown.log_path).exists(), "it is known where it will be"
    await engine.start(sandbox)
    shown = await engine.inspect(sandbox)
    assert Path(shown.log_path).read_bytes() == b""
    joiner = await engine.create("joiner", spec(network_mode=f"container:{sandbox}"))
    assert (await engine.inspect(joiner)).resolv_conf_path == shown.resolv_conf_path
    await engine.remove(joiner)
    await engine.remove(sandbox)
    assert list((tmp_path / "containers").iterdir()) == []


async def test_behind_our_back(engine: SimulatedEngine) -> None:
    container = await running(engine)
    before = await engine.inspect(container)
    async with engine.events() as events:
        engine.restart_container(container)
        after = await engine.inspect(container)
        assert after.pid != before.pid
        engine.finish(container, 137, oom_killed=True)
        assert (await engine.inspect(container)).oom_killed
        with pytest.raises(EngineConflict):
            engine.finish(container)
        engine.drop_events(1)
        engine.vanish(container)
        with pytest.raises(EngineNotFound):
            await engine.inspect(container)
        await engine.create("next", spec())
        actions = [(await anext(events)).action for _ in range(8)]
    assert actions == ["kill", "die", "stop", "start", "restart", "oom", "die", "create"]


async def test_waiters_leave_nothing(engine: SimulatedEngine) -> None:
    container = await running(engine)
    tasks = [asyncio.create_task(engine.wait(container)) for _ in range(3)]
    await settle()
    tasks[0].cancel()
    await settle()
    assert tasks[0].cancelled()
    assert not tasks[1].done()
    await engine.remove(container)
    await asyncio.gather(*tasks[1:])
    with pytest.raises(EngineNotFound):
        await engine.wait(container)


async def test_five_thousand_containers_are_quick() -> None:
    engine = SimulatedEngine()
    begin = time.process_time()
    ids = [
        await engine.create(f"c-{i}", ContainerSpec(image="busybox", labels={"n": str(i % 100)})) for i in range(5000)
    ]
    for container in ids:
        await engine.start(container)
    assert len(await engine.list_containers({"n": "7"})) == 50
    assert len(await engine.list_containers()) == 5000
    for container in ids:
        await engine.inspect(container)
    for container in ids:
        await engine.remove(container)
    assert engine.containers == ()
    # 20,000 calls; a hundred microseconds each would already be far too much.
    assert time.process_time() - begin < 8
