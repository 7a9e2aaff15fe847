"""Logs that only the engine can read: of containers from another shim, kept with another log driver than json-file.

The engine is asked for them, and what it gives fills a spool of our own, which the writer then follows like any other
container's. The spool's end says where to go on, whoever of crishim or the engine was away.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from crishim.engine.api import Engine
from crishim.engine.values import ContainerPhase, LogSpool
from crishim.errors import CRIError, EngineNotFound, LogFailed
from crishim.logs.own_spool import OwnSpool
from crishim.runtime.objects import Container

log = logging.getLogger(__name__)

_PAUSE_FIRST, _PAUSE_MOST = 0.2, 10.0
"""Seconds until the engine is asked again after it ended an answer before its container."""


class LogRelay:
    """Reads the logs of such containers as long as they run."""

    def __init__(self, engine: Engine, folder: Path | None, limits: LogSpool) -> None:
        """`folder`: where their spools lie; None: there are to be none."""
        self._engine = engine
        self._folder = folder
        self._limits = limits
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._kept: set[str] = set()
        """Containers that may have a spool."""

    def __repr__(self) -> str:
        return f"<LogRelay {sum(not task.done() for task in self._tasks.values())} read>"

    async def begin(self, container: Container) -> str:
        """Read a container's log from where it was left; the path of its spool.

        Raises EngineError where it cannot be read at all (EngineNotFound: the container has gone); LogFailed,
        EngineUnavailable and EngineTimeout where it cannot now.
        """
        if self._folder is None:
            raise LogFailed("no folder for logs that only the engine can read", container=container.id)
        spool = OwnSpool(self._folder, container.id, self._limits)
        self._kept.add(container.id)
        task = self._tasks.get(container.id)
        if task is None or task.done():
            begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            work = self._read_to_end(container, spool, begun)
            task = self._tasks[container.id] = asyncio.create_task(work, name=f"read log of {container.id[:13]}")
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            try:
                await asyncio.wait((begun, task), return_when=asyncio.FIRST_COMPLETED)
                if not begun.done():
                    task.result()
            except BaseException as error:
                await self._cancel(container.id)
                if isinstance(error, OSError):
                    raise LogFailed(f"{error.filename or spool.path}: {error.strerror}") from error
                raise
        return str(spool.path)

    async def finish(self, container_id: str) -> None:
        """Return when all is in the spool that a container which has ended had said. Raises LogFailed: it is not."""
        if (task := self._tasks.get(container_id)) is not None:
            await asyncio.wait((task,))
            if task.cancelled() or task.exception() is not None:
                raise LogFailed("it was not read to its end", container=container_id)

    async def drop(self, container_id: str) -> None:
        """Let go of the log of a container that is gone, and remove its spool."""
        await self._cancel(container_id)
        if self._folder is not None and container_id in self._kept:
            self._kept.discard(container_id)
            await asyncio.to_thread(OwnSpool(self._folder, container_id, self._limits).remove)

    async def remove_left(self) -> None:
        """Look which spools there are, and remove those of containers that went while nobody saw it."""
        if self._folder is None:
            return
        names = await asyncio.to_thread(_names, self._folder)
        self._kept.update(names)
        for name in names:
            try:
                await self._engine.inspect(name)
            except EngineNotFound:
                await self.drop(name)
            except CRIError as error:
                log.debug("whether container %s has gone cannot be told: %s", name[:13], error)

    async def close(self) -> None:
        """Read no more."""
        for container_id in tuple(self._tasks):
            await self._cancel(container_id)

    async def _cancel(self, container_id: str) -> None:
        if (task := self._tasks.pop(container_id, None)) is not None:
            task.cancel()
            await asyncio.wait((task,))

    # --- one container

    async def _read_to_end(self, container: Container, spool: OwnSpool, begun: asyncio.Future[None]) -> None:
        pause, told, ended = _PAUSE_FIRST, "", False
        while True:
            try:
                if await self._read(container, spool, begun):
                    pause = _PAUSE_FIRST
                if ended:
                    return
                # An answer that goes on while the container ends may lack its last words: it is read once more.
                ended = (await self._engine.inspect(container.id)).phase is not ContainerPhase.RUNNING
                if ended:
                    continue
                told = ""
            except Exception as error:
                if not begun.done():
                    raise
                if isinstance(error, EngineNotFound):
                    return
                if not isinstance(error, CRIError | OSError):
                    log.exception("reading the log of container %s failed", container.id[:13])
                elif str(error) != told:
                    told = str(error)
                    log.warning("the log of container %s cannot be read at the moment: %s", container.id[:13], told)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _PAUSE_MOST)

    async def _read(self, container: Container, spool: OwnSpool, begun: asyncio.Future[None]) -> bool:
        """One answer of the engine's, to its end; whether there was anything in it."""
        came = False
        since = await asyncio.to_thread(spool.open)
        async with self._engine.read_log(container.id, since, tty=container.live.tty) as entries:
            if not begun.done():
                begun.set_result(None)
            async for some in entries:
                came = True
                await asyncio.to_thread(spool.append, some)
        return came


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []
