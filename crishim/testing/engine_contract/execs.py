"""Checks of execs: their streams, ends, refusals, and what is left when nobody waits for them any more."""

from __future__ import annotations

import asyncio

from crishim.engine.api import Engine
from crishim.engine.features import Feature, has
from crishim.engine.streams import EngineExec
from crishim.engine.values import ContainerPhase
from crishim.errors import CRIError, EngineConflict, EngineNotFound, EngineUnavailable, ExecFailed
from crishim.model.streams import OutputStream, ProcessStreams, TerminalSize, WantedStreams
from crishim.testing.engine_contract.world import PATIENCE, World, refused, soon, until

OUTPUT = WantedStreams(tty=False, stdin=False, stdout=True, stderr=True)
ALL = WantedStreams(tty=False, stdin=True, stdout=True, stderr=True)
TERMINAL = WantedStreams(tty=True, stdin=True, stdout=True, stderr=False)
_UNKNOWN = "0123456789abcdef" * 4
_BLOCK = bytes(range(256)) * 256


async def read_all(streams: ProcessStreams) -> bytes:
    """What comes on standard output until the end."""
    parts = []
    async with asyncio.timeout(PATIENCE):
        while (item := await streams.read()) is not None:
            assert item[0] is OutputStream.STDOUT, item
            assert item[1], "an empty piece of output"
            parts.append(item[1])
    return b"".join(parts)


async def ended(process: EngineExec) -> int:
    """Its exit code."""
    async with asyncio.timeout(PATIENCE):
        return await process.exit_code()


async def check_exec_gives_output_and_exit_code(engine: Engine, world: World) -> None:
    """Nothing runs before the start; output comes whole, then its end, and then the exit code, whichever it is."""
    async with world.container(engine, "host") as container_id:
        process = await engine.exec(container_id, ["echo", "hello", "you"], OUTPUT)
        await process.start()
        assert await read_all(process) == b"hello you\n"
        assert await ended(process) == 0
        assert await process.read() is None
        await process.close()
        await process.close()
        for code in (0, 1, 7, 127, 255):
            process = await engine.exec(container_id, ["sh", "-c", f"exit {code}"], OUTPUT)
            await process.start()
            await process.up()
            assert await read_all(process) == b""
            assert await ended(process) == code
            await process.close()


async def check_exec_echoes_its_input(engine: Engine, world: World) -> None:
    """What is written arrives, whatever its bytes; the end of input arrives after it."""
    async with world.container(engine, "parrot") as container_id:
        process = await engine.exec(container_id, ["cat"], ALL)
        await process.start()

        async def write() -> None:
            for _ in range(32):
                await process.write(_BLOCK)
            await process.write(memoryview(b"the end"))
            await process.close_stdin()
            await process.close_stdin()
            await process.write(b"too late")

        writing = asyncio.create_task(write())
        assert await read_all(process) == 32 * _BLOCK + b"the end"
        await writing
        assert await ended(process) == 0
        await process.write(b"much too late")
        await process.close()


async def check_exec_holds_up_its_writer(engine: Engine, world: World) -> None:
    """Output that is not read holds the process up, and with it the writer; then all of it comes.

    Engines hold several MiB on the way, 20.10 now and then all of 4.
    """
    async with world.container(engine, "slow") as container_id:
        process = await engine.exec(container_id, ["cat"], ALL)
        await process.start()

        async def write() -> None:
            for _ in range(256):
                await process.write(_BLOCK)
            await process.close_stdin()

        writing = asyncio.create_task(write())
        done, _ = await asyncio.wait([writing], timeout=0.5)
        assert not done, "16 MiB were written, and nothing read"
        assert await read_all(process) == 256 * _BLOCK
        await writing
        await process.close()


async def check_exec_that_cannot_start(engine: Engine, world: World) -> None:
    """The engine's words come as an error: no output, no exit code; a writer is not held up for ever."""
    async with world.container(engine, "poor") as container_id:
        for wanted in (ALL, TERMINAL):
            process = await engine.exec(container_id, ["/missing/tool"], wanted)
            await process.start(TerminalSize(80, 24) if wanted.tty else None)
            writing = asyncio.create_task(process.write(64 * _BLOCK))
            error = await refused(process.up(), ExecFailed, "an exec of nothing")
            assert "/missing/tool" in error.message, error
            assert "no such file" in error.message, error
            assert await read_all(process) == b""
            await soon(writing, "a write to what never ran")
            await refused(process.exit_code(), ExecFailed, "the exit code of what never ran")
            await process.kill()
            await process.close()
        assert (await engine.inspect(container_id)).phase is ContainerPhase.RUNNING


async def check_exec_where_nothing_runs(engine: Engine, world: World) -> None:
    """In a container that does not run, or is not there."""
    await refused(engine.exec(_UNKNOWN, ["true"], OUTPUT), EngineNotFound, "an exec in no container")
    created = await engine.create(world.name("asleep"), world.spec())
    await refused(engine.exec(created, ["true"], OUTPUT), EngineConflict, "an exec in a created container")
    await engine.start(created)
    late = await engine.exec(created, ["true"], OUTPUT)
    await engine.kill(created, "SIGKILL")
    await soon(engine.wait(created), "end by SIGKILL")
    await refused(engine.exec(created, ["true"], OUTPUT), EngineConflict, "an exec in an exited container")

    async def start_and_wait() -> None:
        await late.start()
        await late.up()

    await refused(start_and_wait(), CRIError, "the start of an exec in an exited container")
    await late.kill()
    await late.close()
    await engine.remove(created)


async def check_killed_exec(engine: Engine, world: World) -> None:
    """Its output ends, its exit code is 137; the container and its other execs go on. Again: nothing to do."""
    async with world.container(engine, "victim") as container_id:
        doomed, other = [await engine.exec(container_id, ["sleep", "1000"], OUTPUT) for _ in range(2)]
        for process in (doomed, other):
            await process.start()
            await process.up()
        await doomed.kill()
        assert await read_all(doomed) == b""
        assert await ended(doomed) == 137
        await doomed.kill()
        await doomed.close()
        reading = asyncio.create_task(other.read())
        done, _ = await asyncio.wait([reading], timeout=0.2)
        assert not done, "the other exec has ended, too"
        await other.kill()
        await soon(reading, "the end of a killed exec")
        await other.close()
        await other.kill()
        assert (await engine.inspect(container_id)).phase is ContainerPhase.RUNNING


async def check_exec_killed_at_once(engine: Engine, world: World) -> None:
    """A kill that overtakes the start waits for it: nothing is left, whether the start was cancelled or not."""
    async with world.container(engine, "hasty") as container_id:
        for step in range(6):
            process = await engine.exec(container_id, ["sleep", "1000"], OUTPUT)
            task = asyncio.create_task(process.start())
            for _ in range(step):
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()
                await process.close()
                await soon(process.kill(), "a kill at once")
                assert await ended(process) == 137
        assert (await engine.inspect(container_id)).phase is ContainerPhase.RUNNING


async def check_exec_with_a_terminal(engine: Engine, world: World) -> None:
    """It has the size that the start gave it, and takes others; that of an ended process does no harm."""
    async with world.container(engine, "screen") as container_id:
        process = await engine.exec(container_id, ["stty", "size"], TERMINAL)
        await process.start(TerminalSize(width=99, height=33))
        await process.up()
        await process.resize(TerminalSize(width=10, height=10))
        said = await read_all(process)
        assert said == b"33 99\r\n" or not has(await engine.connect(), Feature.CONSOLE_SIZE), said
        assert await ended(process) == 0
        await process.resize(TerminalSize(width=10, height=10))
        await process.close()


async def check_terminal_hangs_up(engine: Engine, world: World) -> None:
    """A client that leaves ends the process at its terminal, even one that never reads."""
    async with world.container(engine, "phone") as container_id:
        process = await engine.exec(container_id, ["sleep", "1000"], TERMINAL)
        await process.start(TerminalSize(width=80, height=24))
        await process.up()
        await process.close()
        assert await ended(process) == 129, "not ended by SIGHUP"


async def check_closing_ends_input(engine: Engine, world: World) -> None:
    """Without a terminal the process reads the end of its input; a reader of ours gets the end."""
    async with world.container(engine, "left") as container_id:
        process = await engine.exec(container_id, ["cat"], ALL)
        await process.start()
        await process.up()
        reading = asyncio.create_task(process.read())
        await asyncio.sleep(0)
        await process.close()
        await soon(reading, "the end for a reader of closed streams")
        assert reading.result() is None
        await ended(process)


async def check_exec_ends_with_its_container(engine: Engine, world: World) -> None:
    """Killed with it, whatever it does."""
    async with world.container(engine, "sinking") as container_id:
        process = await engine.exec(container_id, ["sleep", "1000"], OUTPUT)
        await process.start()
        await process.up()
        await engine.kill(container_id, "SIGKILL")
        assert await read_all(process) == b""
        assert await ended(process) == 137
        await process.kill()
        await process.close()


async def check_many_execs_leave_nothing_open(engine: Engine, world: World) -> None:
    """Run side by side and closed in the middle, they hold nothing of the engine afterwards."""
    async with world.container(engine, "crowd") as container_id:

        async def leave() -> None:
            process = await engine.exec(container_id, ["cat"], ALL)
            await process.start()
            await process.write(b"hello")
            assert await process.read() == (OutputStream.STDOUT, b"hello")
            await process.close()

        await asyncio.gather(*(leave() for _ in range(20)))
        before = world.open_streams()
        await asyncio.gather(*(leave() for _ in range(20)))

        async def as_before() -> bool:
            return world.open_streams() <= before

        await until(as_before, f"open streams back to {before}")


async def check_exec_when_the_engine_closes(engine: Engine, world: World) -> None:
    """Streams under way end with EngineUnavailable when our side of the engine is closed."""
    container_id = await engine.create(world.name("cut"), world.spec())
    await engine.start(container_id)
    process = await engine.exec(container_id, ["cat"], ALL)
    await process.start()
    await process.up()
    reading = asyncio.create_task(process.read())
    done, _ = await asyncio.wait([reading], timeout=0.1)
    assert not done
    await engine.close()
    await soon(refused(reading, EngineUnavailable, "a read under way"), "an end without an engine")
    await refused(process.exit_code(), EngineUnavailable, "an exit code of a closed engine")
    await process.close()
