"""Checks of starting, signalling, waiting and removing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from crishim.engine.api import Engine
from crishim.engine.values import ContainerPhase, EngineResources
from crishim.errors import EngineError, EngineNotFound, Kind
from crishim.testing.engine_contract.world import World, assert_exited, refused, soon


async def check_started_container_runs(engine: Engine, world: World) -> None:
    """It runs with a process, is left alone by a second start, and shows when it began."""
    async with world.container(engine, "run") as container_id:
        shown = await engine.inspect(container_id)
        assert shown.phase is ContainerPhase.RUNNING
        assert shown.pid > 0
        assert 0 < shown.created_at <= shown.started_at
        assert shown.finished_at == 0
        await engine.start(container_id)
        assert await engine.inspect(container_id) == shown


async def check_survey(engine: Engine, world: World) -> None:
    """It shows what an inspect does: names, phase and pause."""

    async def look(expected: ContainerPhase) -> None:
        shown = await engine.inspect(container_id)
        (row,) = await engine.survey(world.labels)
        assert (row.id, row.phase, row.paused) == (shown.id, shown.phase, shown.paused) == (shown.id, expected, False)
        assert shown.name in row.names

    assert not await engine.survey(world.labels)
    container_id = await engine.create(world.name("listed"), world.spec(labels={"color": "red"}))
    await look(ContainerPhase.CREATED)
    await engine.start(container_id)
    await look(ContainerPhase.RUNNING)
    await engine.kill(container_id, "SIGKILL")
    await soon(engine.wait(container_id), "end by SIGKILL")
    await look(ContainerPhase.EXITED)
    assert not await engine.survey(world.labels | {"color": "blue"})
    assert [row.id for row in await engine.survey(world.labels | {"color": ""})] == [container_id]
    await engine.remove(container_id)


async def check_exit_code(engine: Engine, world: World) -> None:
    """The code of a process that ends by itself, whatever it is; inspect shows the end once wait has returned."""
    for code in (0, 7, 255):
        async with world.container(engine, f"exit-{code}", "sh", "-c", f"exit {code}") as container_id:
            await soon(engine.wait(container_id), "end of a container that exits at once")
            shown = await engine.inspect(container_id)
            assert_exited(shown, code)
            assert not shown.oom_killed


async def check_output(engine: Engine, world: World) -> None:
    """Output is in the file at the path that was known before the start, a JSON object a line, long lines in parts."""
    words = '<&> "quoted" \\ é🙂 ' + "x" * 40_000
    async with world.container(engine, "says", "echo", words) as container_id:
        await soon(engine.wait(container_id), "end of a container that prints something")
        path = (await engine.inspect(container_id)).log_path
        text = await asyncio.to_thread(Path(path).read_text)
        entries = [json.loads(line) for line in text.splitlines()]
        assert "".join(entry["log"] for entry in entries) == words + "\n"
        assert [len(entry["log"].encode()) for entry in entries] == [16384, 16384, len(words.encode()) + 1 - 2 * 16384]
        assert {(*entry, entry["stream"]) for entry in entries} == {("log", "stream", "time", "stdout")}
        assert len({entry["time"] for entry in entries}) == 1, "parts of one line have one time"
        assert text.startswith('{"log":"\\u003c\\u0026\\u003e \\"quoted\\" \\\\ é🙂')
    created = await engine.create(world.name("created"), world.spec())
    path = (await engine.inspect(created)).log_path
    assert created in path
    await engine.start(created)
    assert (await engine.inspect(created)).log_path == path
    await engine.remove(created)


async def check_restarted_container(engine: Engine, world: World) -> None:
    """An exited container can be started again: a new process, and the old end is forgotten."""
    async with world.container(engine, "again") as container_id:
        first = await engine.inspect(container_id)
        await engine.kill(container_id, "SIGKILL")
        await soon(engine.wait(container_id), "end by SIGKILL")
        await engine.start(container_id)
        second = await engine.inspect(container_id)
        assert second.phase is ContainerPhase.RUNNING
        assert second.pid not in (0, first.pid)
        assert second.started_at > first.started_at
        assert second.finished_at == 0
        assert second.exit_code == 0


async def check_failed_start(engine: Engine, world: World) -> None:
    """A start that the OCI runtime refuses: its words in error and inspect, no process, and it can be removed."""
    container_id = await engine.create(world.name("broken"), world.spec("/no/such/program"))
    error = await refused(engine.start(container_id), EngineError, "start of a program that does not exist")
    assert not isinstance(error, EngineNotFound), "told as a missing container"
    assert "/no/such/program" in error.message
    shown = await engine.inspect(container_id)
    assert shown.phase in (ContainerPhase.CREATED, ContainerPhase.EXITED)
    assert (shown.pid, shown.exit_code) == (0, 127)
    assert "/no/such/program" in shown.error
    await soon(engine.wait(container_id), "wait for a container that could not start")
    await engine.remove(container_id)


async def check_start_into_a_dead_neighbour(engine: Engine, world: World) -> None:
    """A container that joins one that does not run, or is gone, cannot start, and is not told as missing itself."""
    neighbour = await engine.create(world.name("host"), world.spec())
    spec = world.spec(network_mode=f"container:{neighbour}", ipc_mode=f"container:{neighbour}")
    guest = await engine.create(world.name("guest"), spec)
    assert (await engine.inspect(guest)).network_mode == f"container:{neighbour}"
    for state in ("created", "gone"):
        if state == "gone":
            await engine.remove(neighbour)
        error = await refused(engine.start(guest), EngineError, f"start with a neighbour that is {state}")
        assert not isinstance(error, EngineNotFound), f"neighbour {state}: the guest was told as missing"
    await engine.remove(guest)


async def check_joined_namespaces(engine: Engine, world: World) -> None:
    """A container runs in the network, IPC and PID namespaces of a running one and shares its resolv.conf."""
    async with world.container(engine, "pod", ipc_mode="shareable") as pod:
        join = f"container:{pod}"
        async with world.container(engine, "member", network_mode=join, ipc_mode=join, pid_mode=join) as member:
            shown = await engine.inspect(member)
            assert (shown.network_mode, shown.ipc_mode, shown.pid_mode) == (join, join, join)
            assert shown.resolv_conf_path == (await engine.inspect(pod)).resolv_conf_path


async def check_kill(engine: Engine, world: World) -> None:
    """By name and by number; a process that ends by a signal has its number plus 128."""
    for name, signal in (("by-name", "SIGKILL"), ("by-number", "9")):
        async with world.container(engine, name) as container_id:
            await engine.kill(container_id, signal)
            await soon(engine.wait(container_id), f"end by {signal}")
            assert_exited(await engine.inspect(container_id), 137)


async def check_kill_of_what_does_not_run(engine: Engine, world: World) -> None:
    """No error and no effect, before the start and after the end."""
    container_id = await engine.create(world.name("still"), world.spec("sh", "-c", "exit 3"))
    await engine.kill(container_id, "SIGKILL")
    assert (await engine.inspect(container_id)).phase is ContainerPhase.CREATED
    await engine.start(container_id)
    await soon(engine.wait(container_id), "end of a container that exits at once")
    await engine.kill(container_id, "SIGTERM")
    assert_exited(await engine.inspect(container_id), 3)
    await engine.remove(container_id)


async def check_unknown_signal(engine: Engine, world: World) -> None:
    """Refused as an invalid argument; the container runs on."""
    async with world.container(engine, "calm") as container_id:
        error = await refused(engine.kill(container_id, "SIGNOSUCH"), EngineError, "an unknown signal")
        assert error.kind is Kind.INVALID_ARGUMENT, error.kind
        assert (await engine.inspect(container_id)).phase is ContainerPhase.RUNNING


async def check_wait(engine: Engine, world: World) -> None:
    """Returns at once for what does not run yet, else at the end, for all who wait; a cancelled one holds nobody."""
    container_id = await engine.create(world.name("awaited"), world.spec())
    await soon(engine.wait(container_id), "wait for a created container")
    await engine.start(container_id)
    waits = [asyncio.create_task(engine.wait(container_id)) for _ in range(5)]
    done, _ = await asyncio.wait(waits, timeout=0.2)
    assert not done, "a wait returned while the container runs"
    waits[0].cancel()
    await engine.kill(container_id, "SIGKILL")
    for task in waits[1:]:
        await soon(task, "wait of one of many")
    assert waits[0].cancelled()
    await soon(engine.wait(container_id), "wait for an exited container")
    await engine.remove(container_id)


async def check_wait_ends_with_removal(engine: Engine, world: World) -> None:
    """A removed container does not run."""
    container_id = await engine.create(world.name("fleeting"), world.spec())
    await engine.start(container_id)
    task = asyncio.create_task(engine.wait(container_id))
    await asyncio.wait([task], timeout=0.1)
    await engine.remove(container_id)
    await soon(task, "wait for a container that was removed")


async def check_remove(engine: Engine, world: World) -> None:
    """In every state; afterwards it is gone, and a second removal says so."""
    for state in ("created", "running", "exited"):
        container_id = await engine.create(world.name(f"old-{state}"), world.spec())
        if state != "created":
            await engine.start(container_id)
        if state == "exited":
            await engine.kill(container_id, "SIGKILL")
            await soon(engine.wait(container_id), "end by SIGKILL")
        await engine.remove(container_id)
        assert container_id not in await engine.list_containers(world.labels)
        for call in (engine.inspect(container_id), engine.remove(container_id)):
            await refused(call, EngineNotFound, f"a call on a removed container ({state})")


async def check_many_removals_at_once(engine: Engine, world: World) -> None:
    """One removes, the others wait for it: when any returns the container is gone, and nobody hears of a conflict."""
    container_id = await engine.create(world.name("wanted"), world.spec())
    await engine.start(container_id)

    async def remove() -> bool:
        try:
            await engine.remove(container_id)
        except EngineNotFound:
            return False
        finally:
            assert container_id not in await engine.list_containers(world.labels)
        return True

    assert any(await asyncio.gather(*(remove() for _ in range(10)))), "nobody removed it"


async def check_out_of_memory(engine: Engine, world: World) -> None:
    """A container in which the kernel ended a process for want of memory carries the mark."""
    limit = 16 << 20
    # The first process outlives the one that is killed: when both end at once, a busy engine can miss the reason.
    command = ("sh", "-c", "tail /dev/zero; sleep 1; exit 137")
    async with world.container(
        engine, "hungry", *command, resources=EngineResources(memory=limit, memory_swap=limit)
    ) as container_id:
        await world.run_out_of_memory(container_id)
        await soon(engine.wait(container_id), "end of a container without memory")
        # The engine may note the reason a moment after the end.
        async with asyncio.timeout(10):
            while not (shown := await engine.inspect(container_id)).oom_killed:  # noqa: ASYNC110 - the engine's to say
                await asyncio.sleep(0.05)
        assert_exited(shown, 137)
