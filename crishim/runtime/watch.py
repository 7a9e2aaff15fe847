"""Keeps the index true: events mark objects dirty, one inspect per object at a time tells what they are.

An event never sets a state. An answer is dropped if a write of ours to that object began after it was asked: the write
ends with an inspect of its own. What the engine cannot answer just now is asked again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from crishim.aiokit.steps import step
from crishim.engine.api import Engine
from crishim.engine.values import ContainerPhase, EngineContainer
from crishim.errors import CRIError, EngineNotFound, EngineUnavailable
from crishim.runtime import labels
from crishim.runtime.container_user import read_user
from crishim.runtime.index import Change, Index
from crishim.runtime.logs import Logs
from crishim.runtime.objects import Container, start_failed
from crishim.runtime.records import Records

log = logging.getLogger(__name__)

_WORKERS = 8
"""Inspects under way at once: one that hangs holds one of them until its deadline."""
_OOM_GRACE = 0.05
"""Seconds after which the engine has noted why a container under a memory limit was killed."""
RETRY = 1.0
"""Seconds after which an object is looked at again that could not be."""


class Watch:
    """Turns 'something happened to X' into the index's new value of X."""

    def __init__(self, engine: Engine, index: Index, records: Records, logs: Logs, *, retry: float = RETRY) -> None:
        self._engine = engine
        self._index = index
        self._records = records
        self._logs = logs
        self._retry = retry
        self._dirty: dict[str, None] = {}
        self._asking: set[str] = set()
        self._writers: dict[str, int] = {}
        self._clock = 0
        self._last_write: dict[str, int] = {}
        self._early: dict[str, None] | None = None
        self._idle: list[asyncio.Future[None]] = []
        self._starved: dict[str, int] = {}
        """Containers that were killed for want of memory though the engine does not say so, with their start."""
        self.out_of_memory: Callable[[str], bool] = lambda _id: False
        """Whether the kernel says so of a container that has just ended; asked where the engine does not."""
        index.subscribe(self._forget_writes)

    def __repr__(self) -> str:
        return f"<Watch {len(self._dirty)} dirty, {len(self._asking)} being asked>"

    @property
    def waiting(self) -> int:
        """Objects that are to be looked at, or are."""
        return len(self._dirty) + len(self._asking)

    def mark(self, container_id: str) -> None:
        """Something happened to this container; look at it soon. Unknown ids are left to the next comparison."""
        if self._index.container(container_id) or self._index.sandbox(container_id):
            self._dirty[container_id] = None
            self._stir(container_id)
        elif self._early is not None:
            self._early[container_id] = None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While everything is read: what happens to an object between its being read and its being known counts."""
        self._early = {}
        try:
            yield
        finally:
            early, self._early = self._early, None
            for container_id in early:
                self.mark(container_id)

    @contextmanager
    def writing(self, container_id: str) -> Iterator[None]:
        """While we change an object ourselves, answers about it that were asked before do not count."""
        self._clock += 1
        self._last_write[container_id] = self._clock
        self._writers[container_id] = self._writers.get(container_id, 0) + 1
        try:
            yield
        finally:
            self._writers[container_id] -= 1
            if not self._writers[container_id]:
                del self._writers[container_id]
                self._stir(container_id)

    def stamp(self) -> int:
        """The moment at which a question is asked, for `counts`."""
        return self._clock

    def counts(self, container_id: str, stamp: int) -> bool:
        """Whether an answer to what was asked at `stamp` still counts: no write of ours began since, none goes on."""
        return container_id not in self._writers and self._last_write.get(container_id, 0) <= stamp

    def _forget_writes(self, change: Change) -> None:
        if change.after is None and change.before is not None:
            self._last_write.pop(change.before.id, None)
            self._starved.pop(change.before.id, None)

    async def run(self) -> None:
        """Look at dirty objects for ever; cancelled to end."""
        async with asyncio.TaskGroup() as group:
            for number in range(_WORKERS):
                group.create_task(self._worker(), name=f"watch {number}")

    async def _worker(self) -> None:
        while True:
            container_id = next((i for i in self._dirty if i not in self._asking and i not in self._writers), None)
            if container_id is None:
                self._idle.append(asyncio.get_running_loop().create_future())
                await self._idle[-1]
                continue
            del self._dirty[container_id]
            self._asking.add(container_id)
            try:
                await self._look(container_id)
            except EngineUnavailable:
                # Perhaps this one answer was lost; where the engine is away, the link tells.
                self._mark_later(container_id)
            except CRIError as error:
                log.warning("container %s cannot be inspected, will be asked again: %s", container_id[:13], error)
                self._mark_later(container_id)
            except Exception:
                # A fault of ours with one object must not end the watch over all of them.
                log.exception("looking at container %s failed", container_id[:13])
                self._mark_later(container_id)
            finally:
                self._asking.discard(container_id)
                self._stir(container_id)

    def _stir(self, container_id: str) -> None:
        """Wake one idle worker if there is work for it: the one object that has just become dirty, or free."""
        if container_id in self._dirty and container_id not in self._asking and container_id not in self._writers:
            while self._idle:
                worker = self._idle.pop()
                if not worker.done():  # cancelled, at the end
                    worker.set_result(None)
                    break

    def _mark_later(self, container_id: str) -> None:
        asyncio.get_running_loop().call_later(self._retry, self.mark, container_id)

    async def _look(self, container_id: str) -> None:
        stamp = self.stamp()
        live = await self._ask(container_id)
        if self.counts(container_id, stamp):
            await self._apply(container_id, live)

    async def _ask(self, container_id: str, *, killed: bool = False) -> EngineContainer | None:
        """The engine's answer, None if it has no such container."""
        try:
            with step("engine inspect", engine=True):
                live = await self._engine.inspect(container_id)
            if killed or not _may_be_oom(live) or self._known_to_have_ended(container_id):
                return live
            if self.out_of_memory(container_id):
                self._starved[container_id] = live.started_at
            else:
                await asyncio.sleep(_OOM_GRACE)
                with step("engine inspect", engine=True):
                    live = await self._engine.inspect(container_id)
        except EngineNotFound:
            return None
        return live

    def _known_to_have_ended(self, container_id: str) -> bool:
        container = self._index.container(container_id)
        return container is not None and container.live.phase is ContainerPhase.EXITED

    async def refresh(self, container_id: str, *, killed: bool = False) -> EngineContainer | None:
        """Ask now and put the answer into the index, as the end of a write of ours. Raises the engine's errors.

        `killed`: by ourselves, so that an exit is not suspected to be for want of memory.
        """
        live = await self._ask(container_id, killed=killed)
        await self._apply(container_id, live)
        return live

    async def _apply(self, container_id: str, live: EngineContainer | None) -> None:
        if live is None:
            await self.vanished(container_id)
        else:
            await self.apply(live)

    async def apply(self, live: EngineContainer) -> None:
        """Put an answer of the engine into the index, unless it is older than what is known.

        That a container has ended is told when its log is complete.
        """
        if self._starved.get(live.id) == live.started_at:
            live = replace(live, oom_killed=True)
        known = self._index.container(live.id)
        if known is not None and (not known.seen or not _older(live, known.live)):
            await self._logs.before_change(replace(known, log_path=_log_path(known, live)), live)
        sandbox, container = self._index.sandbox(live.id), self._index.container(live.id)
        if sandbox is not None and (not sandbox.seen or not _older(live, sandbox.live)):
            self._index.put_sandbox(replace(sandbox, live=live, seen=True))
        elif container is not None and (not container.seen or not _older(live, container.live)):
            user = container.user or (read_user(live.pid) if live.pid else None)
            path = _log_path(container, live)
            self._index.put_container(replace(container, live=live, seen=True, user=user, log_path=path))

    async def vanished(self, container_id: str) -> None:
        """The engine has no such container: a sandbox stays listed NOTREADY until it is removed, a container goes."""
        if (sandbox := self._index.sandbox(container_id)) is not None:
            self._index.put_sandbox(replace(sandbox, live=None, seen=True))
        elif (container := self._index.container(container_id)) is not None:
            self._index.drop_container(container_id)
            await self._logs.finish(container_id)
            await self._logs.drop(container_id)
            await self._records.drop_container(container.sandbox_id, container_id)


def _log_path(container: Container, live: EngineContainer) -> str:
    """Until a container is seen, where its log lies is a guess."""
    return container.log_path if container.seen else live.labels.get(labels.LOG_PATH, container.log_path)


_ORDER = {ContainerPhase.CREATED: 0, ContainerPhase.RUNNING: 1, ContainerPhase.EXITED: 2, ContainerPhase.REMOVING: 3}


def _older(live: EngineContainer, known: EngineContainer | None) -> bool:
    """Whether an answer is of an earlier moment than the known one: states move forward, except by a later start."""
    if known is None:
        return False
    if live.started_at != known.started_at:
        return live.started_at < known.started_at
    return _progress(live) < _progress(known)


def _progress(live: EngineContainer) -> int:
    return _ORDER[ContainerPhase.EXITED] if start_failed(live) else _ORDER[live.phase]


def _may_be_oom(live: EngineContainer) -> bool:
    """Killed under a memory limit, but not (yet) said to be for memory."""
    return (
        live.phase is ContainerPhase.EXITED and live.exit_code == 137 and not live.oom_killed
        and bool(live.resources.memory)
    )  # fmt: skip
