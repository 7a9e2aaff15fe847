"""What exec, ExecSync and attach have in common: who may be asked, what the engine's refusals mean, how it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from crishim.engine.streams import EngineExec
from crishim.errors import (
    ContainerNotFound,
    ContainerNotRunning,
    CRIError,
    EngineConflict,
    EngineNotFound,
    EngineTimeout,
    EngineUnavailable,
    InvalidArgument,
)
from crishim.model.streams import WantedStreams
from crishim.runtime.core import Runtime
from crishim.runtime.objects import Container

log = logging.getLogger(__name__)

_KILL_LIMIT = 300.0
"""Seconds in which an engine that is away may come back and tell which process it was."""
_KILL_AGAIN = 1.0


def need_running(rt: Runtime, container_id: str) -> Container:
    """The running container of this id or prefix. Raises ContainerNotFound, AmbiguousId, ContainerNotRunning."""
    rt.link.need_loaded()
    container = rt.index.need_container(container_id)
    if not container.running:
        state = container.state.name.removeprefix("CONTAINER_").lower()
        raise ContainerNotRunning(f"container {container.id[:13]} is not running but {state}", container=container.id)
    return container


def check_command(command: tuple[str, ...]) -> None:
    """Raises InvalidArgument for a command line without a command."""
    if not command or not command[0]:
        raise InvalidArgument("is missing", field="cmd")


def check_streams(wanted: WantedStreams) -> None:
    """CRI ExecRequest, AttachRequest: at least one stream; a terminal has no stderr. Raises InvalidArgument."""
    if not (wanted.stdin or wanted.stdout or wanted.stderr):
        raise InvalidArgument("one of stdin, stdout and stderr must be set", field="stdout")
    if wanted.tty and wanted.stderr:
        raise InvalidArgument("a terminal has no stderr of its own", field="stderr")


@asynccontextmanager
async def translated(rt: Runtime, container_id: str) -> AsyncIterator[None]:
    """Turn the engine's words about a container that changed into CRI's, and have the index look at it."""
    try:
        yield
    except EngineNotFound as error:
        rt.watch.mark(container_id)
        raise ContainerNotFound(f"container {container_id[:13]} was removed", container=container_id) from error
    except EngineConflict as error:
        rt.watch.mark(container_id)
        raise ContainerNotRunning(error.message, container=container_id) from error


def end_process(rt: Runtime, process: EngineExec) -> asyncio.Task[None]:
    """Kill an exec for which nobody waits any more, and let it go; goes on in the background."""
    return rt.background.start(_end(process), name=f"kill an exec in {process.container_id[:13]}")


async def _end(process: EngineExec) -> None:
    try:
        async with asyncio.timeout(_KILL_LIMIT):
            while True:
                try:
                    await process.kill()
                    return
                except (EngineUnavailable, EngineTimeout):
                    await asyncio.sleep(_KILL_AGAIN)
    except TimeoutError:
        log.warning("a process was left running, the engine did not tell which one: %r", process)
    except CRIError as error:
        log.warning("a process was left running: %s", error, extra={"ids": {"container": process.container_id}})
    finally:
        await process.close()
