"""Which containers' logs are written, and how far they are: between the verbs and the writer in `crishim.logs`.

A log is begun before its container starts. It is complete when everything is written that the container had said when
it ended, and only then is the container EXITED; but nobody waits longer for that than `EXIT_LIMIT`.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from crishim.aiokit.background import Background
from crishim.aiokit.gather import gather_all
from crishim.aiokit.steps import step
from crishim.checkpoint.record import ContainerRecord, SandboxRecord
from crishim.engine.values import ContainerPhase, EngineContainer
from crishim.errors import (
    ContainerNotRunning,
    EngineError,
    EngineNotFound,
    EngineTimeout,
    EngineUnavailable,
    LogFailed,
)
from crishim.logs.api import LogPlaces, LogProgress, LogWriter
from crishim.runtime.index import Index
from crishim.runtime.log_relay import LogRelay
from crishim.runtime.objects import Container, start_failed
from crishim.runtime.records import Edit, Records

log = logging.getLogger(__name__)

EXIT_LIMIT = 2.0
"""Seconds for which the end of a container is not told for the sake of its log."""


class Logs:
    """The logs of all containers."""

    def __init__(
        self, writer: LogWriter, relay: LogRelay, index: Index, records: Records, background: Background
    ) -> None:
        self._writer = writer
        self._relay = relay
        self._index = index
        self._records = records
        self._background = background
        self._followed: set[str] = set()
        self._finishing: dict[str, asyncio.Task[None]] = {}
        self._progress: dict[str, LogProgress] = {}
        """What is to be recorded."""
        self._recording: asyncio.Task[None] | None = None
        self._late = 0
        self._overdue: set[str] = set()
        """Those of which the end was told before the log was complete."""
        self._without: set[str] = set()
        """Containers whose output cannot be read, as it was told."""
        self._tidy = False
        """Whether what gone containers left was looked for."""
        writer.on_progress = self._note_progress
        writer.on_note = lambda container_id, note: log.warning("container %s: %s", container_id[:13], note)

    def __repr__(self) -> str:
        return f"<Logs {len(self._followed)} written, {len(self._finishing)} ending>"

    def state(self) -> Mapping[str, object]:
        """Counters for the node's status. `exits_before_log`: ends that were told before the log was complete."""
        return {**self._writer.state(), "exits_before_log": self._late}

    async def begin(self, container: Container) -> None:
        """Open the log of a container that is to be started, and note where it is. Raises LogFailed.

        One that only the engine can read is begun when the container runs, by `before_change`.
        """
        if container.log_path and container.live.log_path and container.id not in self._followed:
            places = _places(container, container.live.log_path)
            with step("log"):
                progress = await self._writer.begin(places, _progress_of(container.record), new=True)
            self._followed.add(container.id)
            if progress is not None:
                self._note_progress(container.id, progress)

    async def follow(self, container: Container) -> None:
        """Go on with the log of a container that was started already; what is wrong with it is told in the log."""
        if container.id in self._followed or container.id in self._without or not container.log_path:
            return
        spool = container.live.log_path or await self._read_from_engine(container)
        if not spool:
            return
        try:
            await self._writer.begin(_places(container, spool), _progress_of(container.record), new=False)
        except LogFailed as error:
            log.error("the log of container %s is not written: %s", container.id[:13], error)
        else:
            self._followed.add(container.id)

    async def _read_from_engine(self, container: Container) -> str:
        """Have a log read that only the engine can read; the path of its spool, empty where it cannot."""
        try:
            return await self._relay.begin(container)
        except (EngineUnavailable, EngineTimeout, EngineNotFound, LogFailed) as error:
            # The next comparison tries again, or knows better.
            log.warning("the log of container %s is not read: %s", container.id[:13], error)
        except EngineError as error:
            self._without.add(container.id)
            driver = container.live.log_driver or "none"
            log.error("container %s has no log, its log driver being %s: %s", container.id[:13], driver, error)
        return ""

    async def follow_all(self) -> None:
        """Go on with every log that is not complete: of what runs, and of what ended while nobody wrote."""
        behind = [
            container
            for container in self._index.containers()
            if container.seen
            and container.live.started_at
            and container.id not in self._followed
            and (container.running or not container.record.log_complete)
        ]
        await gather_all(self.follow(container) for container in behind)
        await gather_all(self.finish(container.id) for container in behind if not container.running)
        if not self._tidy:
            self._tidy = True
            await self._relay.remove_left()

    async def before_change(self, container: Container, live: EngineContainer) -> None:
        """What must be done before the index tells of an answer of the engine: an end waits for the log."""
        if live.phase is ContainerPhase.RUNNING:
            if container.id not in self._followed and (container.record.log_complete or not container.running):
                await self.follow(replace(container, live=live))
        elif live.phase is not ContainerPhase.CREATED or start_failed(live):
            if live.started_at and not container.record.log_complete:
                await self.follow(replace(container, live=live))
            await self.finish(container.id)

    async def finish(self, container_id: str) -> None:
        """Return when the log of a container that has ended is complete, or after `EXIT_LIMIT`."""
        if container_id not in self._followed:
            return
        task = self._finishing.get(container_id)
        if task is None:
            task = self._background.start(self._finish(container_id), name=f"log of {container_id[:13]}")
            self._finishing[container_id] = task
            task.add_done_callback(lambda _: self._finishing.pop(container_id, None))
        with step("log"):
            done, _ = await asyncio.wait((task,), timeout=EXIT_LIMIT)
        if not done and container_id not in self._overdue:
            self._late += 1
            self._overdue.add(container_id)
            self._writer.mark_late(container_id)
            log.warning("container %s ended, and its log is not complete after %g s", container_id[:13], EXIT_LIMIT)

    async def _finish(self, container_id: str) -> None:
        try:
            await self._relay.finish(container_id)
            progress = await self._writer.complete(container_id)
        except LogFailed as error:
            log.error("the log of container %s is not complete: %s", container_id[:13], error)
            self._followed.discard(container_id)  # the next comparison tries again
            return
        self._followed.discard(container_id)
        if container_id in self._overdue:
            self._overdue.discard(container_id)
            log.info("the log of container %s is complete now", container_id[:13])
        self._progress.pop(container_id, None)
        await self._record(container_id, progress, complete=True)

    async def reopen(self, container: Container) -> None:
        """Write to a new file from the next line on (CRI ReopenContainerLog). Raises ContainerNotRunning, LogFailed."""
        if not container.log_path or not (container.live.log_path or container.id in self._followed):
            raise LogFailed("the container has no log that is written", container=container.id)
        if not container.running:
            raise ContainerNotRunning(
                f"container {container.id[:13]} does not run: nothing is added to its log", container=container.id
            )
        with step("log"):
            progress = await self._writer.reopen(container.id)
        self._progress.pop(container.id, None)
        # A restart must know which of the two files goes on.
        await self._record(container.id, progress)

    async def drop(self, container_id: str) -> None:
        """Let go of the log of a container that is gone."""
        if (task := self._finishing.get(container_id)) is not None:
            task.cancel()
        self._progress.pop(container_id, None)
        self._without.discard(container_id)
        self._overdue.discard(container_id)
        if container_id in self._followed:
            self._followed.discard(container_id)
            with suppress(LogFailed):
                await self._writer.drop(container_id)
        await self._relay.drop(container_id)

    async def close(self) -> None:
        """Stop writing, and record how far each log is."""
        await self._relay.close()
        await self._writer.close()
        while self._recording is not None:
            await asyncio.wait((self._recording,))

    # --- the record

    def _note_progress(self, container_id: str, progress: LogProgress) -> None:
        self._progress[container_id] = progress
        if self._recording is None:
            self._recording = self._background.start(self._record_all(), name="record logs")

    async def _record_all(self) -> None:
        try:
            while self._progress:
                container_id, progress = self._progress.popitem()
                await self._record(container_id, progress)
        finally:
            self._recording = None

    async def _record(self, container_id: str, progress: LogProgress | None, *, complete: bool = False) -> None:
        container = self._index.container(container_id)
        if container is None:
            return
        record = _with_progress(container.record, progress, complete=complete)
        self._index.put_container(replace(container, record=record))
        await self._records.try_change(container.sandbox_id, _edit(container_id, progress, complete=complete))


def _places(container: Container, spool: str) -> LogPlaces:
    name = posixpath.normpath(container.record.config.log_path or ".")
    if name == "." or not container.log_path.endswith(f"/{name}"):
        name = posixpath.basename(container.log_path)
    return LogPlaces(
        container_id=container.id,
        spool=spool,
        folder=container.log_path[: -len(name) - 1],
        name=name,
    )


def _progress_of(record: ContainerRecord) -> LogProgress | None:
    if record.log_position is None or record.log_file is None:
        return None
    return LogProgress(spool=(*record.log_position, record.log_mark), file=record.log_file)


def _with_progress(record: ContainerRecord, progress: LogProgress | None, *, complete: bool) -> ContainerRecord:
    record = replace(record, log_complete=complete)
    if progress is None:
        return record
    inode, offset, mark = progress.spool
    return replace(record, log_position=(inode, offset), log_mark=mark, log_file=progress.file)


def _edit(container_id: str, progress: LogProgress | None, *, complete: bool) -> Edit:
    def edit(record: SandboxRecord) -> SandboxRecord:
        if (container := record.containers.get(container_id)) is None:
            return record
        changed = _with_progress(container, progress, complete=complete)
        return replace(record, containers={**record.containers, container_id: changed})

    return edit
