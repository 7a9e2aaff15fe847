"""ExecSync: a command in a container, its output and exit code. What a kubelet's exec probes are made of."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from crishim.aiokit.steps import step
from crishim.engine.streams import EngineExec
from crishim.errors import ExecFailed, ExecTimeout, InvalidArgument
from crishim.model.streams import OutputStream, WantedStreams
from crishim.runtime.container_process import check_command, end_process, need_running, translated
from crishim.runtime.core import Runtime

OUTPUT_LIMIT = (16 << 20) - (64 << 10)
"""Bytes of stdout and stderr together that are kept: a message of CRI holds 16 MiB."""
_KILL_WAIT = 0.5
"""Seconds for which the answer of a timed-out call waits until its processes are dead; it goes on without."""
_HELD = 2.5
"""Seconds from when the engine has started it for which it waits at least if the engine says nothing: it is silent
about a command that has ended while a child holds the output open, for 2 s from that end."""
_OUTPUT = WantedStreams(tty=False, stdin=False, stdout=True, stderr=True)


@dataclass(slots=True)
class ExecResult:
    """What a command printed, as far as it fits, and how it ended (0 to 255, 128 + N when killed by signal N)."""

    stdout: bytearray
    stderr: bytearray
    exit_code: int = 0

    def add(self, stream: OutputStream, data: bytes) -> None:
        """Take output; what is above `OUTPUT_LIMIT` is dropped."""
        room = OUTPUT_LIMIT - len(self.stdout) - len(self.stderr)
        (self.stdout if stream is OutputStream.STDOUT else self.stderr).extend(data[:room] if room > 0 else b"")


async def exec_sync(rt: Runtime, container_id: str, command: tuple[str, ...], timeout: int) -> ExecResult:
    """Run a command and wait for its end, at most `timeout` seconds, 0: as long as it takes (CRI ExecSync).

    Whoever still runs of it at the timeout, or when the call is cancelled, is killed, children included. A child that
    outlives the command and holds its output open does not hold up the answer: the engine closes it after 2 s.

    Raises InvalidArgument, ContainerNotFound, ContainerNotRunning; ExecFailed with the engine's words when the command
    could not be started; ExecTimeout.
    """
    container = need_running(rt, container_id)
    check_command(command)
    if timeout < 0:
        raise InvalidArgument(f"{timeout} is negative", field="timeout")
    result = ExecResult(bytearray(), bytearray())
    limited = asyncio.timeout(timeout or None)
    process: EngineExec | None = None
    started = asyncio.get_running_loop().time()
    try:
        async with translated(rt, container.id):
            try:
                async with limited:
                    with step("engine exec", engine=True):
                        process = await rt.link.engine.exec(container.id, command, _OUTPUT)
                        await process.start()
                        started = asyncio.get_running_loop().time()
                    await _collect(process, result)
                    with step("engine exec inspect", engine=True):
                        result.exit_code = await process.exit_code()
            except TimeoutError as error:
                if not limited.expired():
                    raise
                patience = max(_KILL_WAIT, started + _HELD - asyncio.get_running_loop().time())
                with step("kill"):
                    late = process is None or not await _ended_by_itself(rt, process, patience)
                if late or process is None:
                    words = f"the command did not end within {timeout} s"
                    raise ExecTimeout(words, container=container.id) from error
                with suppress(TimeoutError):
                    async with asyncio.timeout(_HELD):
                        await _collect(process, result)
                result.exit_code = await process.exit_code()
    except ExecFailed as error:
        # The engine gives its reason in place of output.
        raise ExecFailed(
            result.stdout.decode(errors="replace").strip() or str(error), container=container.id
        ) from error
    except ExecTimeout:
        raise
    except BaseException:
        if process is not None:
            end_process(rt, process)
        raise
    finally:
        if process is not None:
            await process.close()
    return result


async def _collect(process: EngineExec, result: ExecResult) -> None:
    with step("engine exec output", engine=True):
        while (item := await process.read()) is not None:
            result.add(*item)


async def _ended_by_itself(rt: Runtime, process: EngineExec, patience: float) -> bool:
    """Kill what runs of a command; False if anything did, or if that is not known after `patience` seconds."""
    killing = rt.background.start(process.kill(), name=f"kill an exec in {process.container_id[:13]}", quiet=True)
    try:
        await asyncio.wait({killing}, timeout=patience)
        if killing.done() and killing.exception() is None:
            return not killing.result()
    except asyncio.CancelledError:
        killing.cancel()
        raise
    killing.cancel()
    end_process(rt, process)
    return False
