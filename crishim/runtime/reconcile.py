"""Joins what the engine has with what the checkpoints say: at start, after each outage, and every half minute.

The last of these asks only for what is not as the engine's list shows it (docs/decisions/comparison.md).

One bad object never fails the rest: it is told in the log and left alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from crishim.aiokit.locks import KeyedLocks
from crishim.checkpoint.api import CheckpointStore
from crishim.checkpoint.record import ContainerRecord, SandboxRecord
from crishim.engine.api import Engine
from crishim.engine.values import ContainerPhase, EngineContainer, ListedContainer
from crishim.errors import CRIError, EngineUnavailable
from crishim.network.api import PodNetwork
from crishim.network.namespaces import NetworkNamespaces
from crishim.runtime import labels
from crishim.runtime.adopt import (
    adopt_anchored,
    adopt_container,
    adopt_sandbox,
    lost_sandbox,
    settle_anchored,
    unseen_container,
)
from crishim.runtime.anchored.carrier import has_process
from crishim.runtime.anchored.upkeep import Upkeep, known_objects
from crishim.runtime.container_user import read_user
from crishim.runtime.index import Change, Index
from crishim.runtime.logs import Logs
from crishim.runtime.names import Names, parse_name
from crishim.runtime.objects import Container, Sandbox
from crishim.runtime.read_all import inspect_all
from crishim.runtime.records import Records, with_container
from crishim.runtime.spec.container import make_log_path
from crishim.runtime.unchanged import Lives, Turns, find_unchanged, last_told, lives
from crishim.runtime.watch import Watch

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Touched:
    """What our own calls had to do with while everything was read: what was read of it before says nothing."""

    names: set[str]
    dropped: set[str]

    def __contains__(self, live: EngineContainer) -> bool:
        return live.id in self.dropped or live.name.lstrip("/") in self.names


@dataclass(frozen=True, kw_only=True)
class Reconciler:
    """Makes the index true by reading everything."""

    engine: Engine
    store: CheckpointStore
    index: Index
    records: Records
    watch: Watch
    logs: Logs
    names: Names
    locks: KeyedLocks
    namespaces: NetworkNamespaces
    network: PodNetwork
    upkeep: Upkeep
    lives: Lives = lives
    turns: Turns = field(default_factory=Turns)

    async def load_records(self) -> None:
        """Put what the store holds into the index; the engine's part follows with `compare`."""
        loaded = await self.store.load()
        for thing in loaded.set_aside:
            log.error("checkpoint %s is unreadable (%s); kept at %s", thing.name, thing.reason, thing.kept_at)
        for record in loaded.records:
            if record.config.metadata is None:
                log.error("checkpoint %s does not tell whose it is; the engine's labels are asked", record.id[:13])
                continue
            held = await self._holds(record)
            self.index.put_sandbox(Sandbox(record=record, live=None, seen=False, held=held))

    async def _holds(self, record: SandboxRecord) -> bool:
        try:
            return await self.upkeep.holds(record)
        except CRIError as error:
            log.warning("the namespaces of sandbox %s cannot be looked at: %s", record.id[:13], error)
            return False

    async def compare(self, *, thorough: bool = True) -> None:
        """Read all of the engine's containers that belong to pods. Raises EngineUnavailable, EngineTimeout.

        Unless `thorough`, those that are as the list shows them are asked for only when it is their turn. That will do
        as long as events come without a break.
        """
        with self.watch.reading(), self._touched() as touched:
            objects = known_objects(self.index.sandboxes())
            known = {c.id for c in self.index.containers()} | objects.keys()
            pods = {s.id: s.record.object_id for s in self.upkeep.anchored() if s.ready}
            recorded = {i for s in self.index.sandboxes() for i in s.record.containers}
            rows = await self.engine.survey({labels.TYPE: ""})
            listed = {row.id for row in rows}
            kept = set() if thorough else await self._unchanged(rows, objects)
            read = await inspect_all(self.engine, self.watch, (listed | known) - kept)
            for live in read.found:
                if _is(labels.SANDBOX, live, recorded) and not self._settled(live, touched):
                    await self._alone(live.id, self._adopt_sandbox(live))
            for live in read.found:
                if _is(labels.CONTAINER, live, recorded) and not self._settled(live, touched):
                    await self._alone(live.id, self._adopt_container(live, touched))
            for container_id in known & read.missing:
                await self.watch.vanished(container_id)
            self._take_unseen(listed & read.unanswered)
            await self._forget_lost_containers(recorded - listed)
            having = await self.upkeep.note_objects(read.found) | {objects[i] for i in kept & objects.keys()}
        await self._pin_again()
        lacking = {i for i, object_id in pods.items() if i not in having and object_id not in read.unanswered}
        await self.upkeep.tend(lacking, self._alone)
        await self.logs.follow_all()
        await self.records.flush()

    async def _unchanged(self, rows: Collection[ListedContainer], objects: Mapping[str, str]) -> set[str]:
        ended = {row.id for row in rows if row.phase is not ContainerPhase.RUNNING}
        # A pod's process that has ended comes again; of other objects only their being there counts.
        resting = {s.object_id for s in self.upkeep.anchored() if not (has_process(s) and s.object_id in ended)}
        told, objects_there = last_told(self.index), resting & objects.keys()
        unchanged = await asyncio.to_thread(find_unchanged, rows, told, objects_there, self.lives)
        return unchanged - self.turns.take(row.id for row in rows)

    @contextmanager
    def _touched(self) -> Iterator[Touched]:
        with self.names.noting() as names:
            touched = Touched(names, set())

            def note(change: Change) -> None:
                if change.after is None and change.before is not None:
                    touched.dropped.add(change.before.id)

            unsubscribe = self.index.subscribe(note)
            try:
                yield touched
            finally:
                unsubscribe()

    def _settled(self, live: EngineContainer, touched: Touched) -> bool:
        sandbox_id = labels.anchored_id(live.labels) or live.id
        known = self.index.sandbox(sandbox_id) or self.index.container(live.id)
        return bool(known) or live in touched or sandbox_id in touched.dropped

    async def _alone(self, object_id: str, work: Awaitable[None]) -> None:
        """Whatever is wrong with one object stays with it, but for an engine that is away."""
        try:
            await work
        except EngineUnavailable:
            raise
        except CRIError as error:
            log.warning("container %s is left alone: %s", object_id[:13], error)
        except Exception:
            log.exception("container %s is left alone", object_id[:13])

    # --- objects without a record

    async def _adopt_sandbox(self, live: EngineContainer) -> None:
        if sandbox_id := labels.anchored_id(live.labels):
            await self._adopt_anchored(live, sandbox_id)
            return
        path = self.namespaces.path(live.id)
        ips = await self.namespaces.addresses(live.pid) if live.pid and live.network_mode != "host" else ()
        pinned = self.namespaces.pinned(live.id)
        record = adopt_sandbox(live, path, ips, has_addresses=self.network.name != "none", pinned=pinned)
        if record is not None:
            log.info("sandbox %s (%s) has no record: read from its labels", live.id[:13], live.name)
            self.records.add(Sandbox(record=record, live=live))

    async def _adopt_anchored(self, live: EngineContainer, sandbox_id: str) -> None:
        path = self.namespaces.path(sandbox_id)
        ips = await self.namespaces.held_addresses(sandbox_id)
        record = adopt_anchored(live, sandbox_id, path, ips)
        if record is None:
            return
        held = await self._holds(record)
        record = settle_anchored(record, held=held, has_addresses=self.network.name != "none")
        log.info("sandbox %s (%s) has no record: read from its labels", sandbox_id[:13], live.name)
        self.records.add(Sandbox(record=record, live=None, held=held))

    async def _adopt_container(self, live: EngineContainer, touched: Touched) -> None:
        sandbox = self._sandbox_of(live, touched)
        if sandbox is None:
            return
        record = sandbox.record.containers.get(live.id) or adopt_container(live, live.image_id)
        if record is None:
            return
        # The label first: the pod's folder of logs that CreateContainer was told may be another than the sandbox's.
        path = live.labels[labels.LOG_PATH] if labels.LOG_PATH in live.labels else _log_path(sandbox, record)
        user = read_user(live.pid) if live.pid else None
        self.index.put_container(
            Container(record=record, sandbox_id=sandbox.id, live=live, log_path=path, user=user, found=True)
        )
        if live.id not in sandbox.record.containers:
            await self.records.try_change(sandbox.id, with_container(record))

    def _sandbox_of(self, live: EngineContainer, touched: Touched) -> Sandbox | None:
        sandbox_id = live.labels.get(labels.SANDBOX_ID, "")
        if (sandbox := self.index.sandbox(sandbox_id)) is not None or sandbox_id in touched.dropped:
            return sandbox
        record = lost_sandbox(live, sandbox_id, self.namespaces.path(sandbox_id) if sandbox_id else "")
        if record is None:
            return None
        log.warning("sandbox %s of container %s is lost: listed until it is removed", sandbox_id[:13], live.id[:13])
        self.records.add(Sandbox(record=record, live=None))
        return self.index.sandbox(sandbox_id)

    # --- records without an object

    def _take_unseen(self, unanswered: set[str]) -> None:
        """List containers of which only the record tells; the watch asks on."""
        recorded: Mapping[str, tuple[Sandbox, ContainerRecord]] = {
            record.id: (sandbox, record)
            for sandbox in self.index.sandboxes()
            for record in sandbox.record.containers.values()
        }
        for container_id in unanswered & recorded.keys():
            if self.index.container(container_id) is None:
                sandbox, record = recorded[container_id]
                self.index.put_container(
                    Container(
                        record=record,
                        sandbox_id=sandbox.id,
                        live=unseen_container(record),
                        log_path=_log_path(sandbox, record),
                        found=True,
                        seen=False,
                    )
                )
        for container_id in unanswered:
            self.watch.mark(container_id)

    async def _forget_lost_containers(self, lost: set[str]) -> None:
        """Containers that a record tells of but that the engine has no more."""
        for sandbox in tuple(self.index.sandboxes()):
            for container_id in lost & sandbox.record.containers.keys():
                if self.index.container(container_id) is None:
                    await self.records.drop_container(sandbox.id, container_id)

    # --- namespaces

    async def _pin_again(self) -> None:
        """A pin that was taken away under a running sandbox: without it the network could not be given back."""
        for sandbox in tuple(self.index.sandboxes()):
            # Where somebody holds the lock, the sandbox is being stopped.
            if (
                sandbox.live is not None
                and sandbox.ready
                and sandbox.record.netns_path
                and not self.locks.locked(sandbox.id)
            ):
                await self._alone(sandbox.id, self._pin(sandbox.id))

    async def _pin(self, sandbox_id: str) -> None:
        if self.namespaces.pinned(sandbox_id):
            return
        async with self.locks.hold(sandbox_id):
            sandbox = self.index.sandbox(sandbox_id)
            if sandbox is None or not sandbox.ready or sandbox.live is None:
                return
            log.warning("the pin of sandbox %s was gone: pinned again", sandbox_id[:13])
            await self.namespaces.pin(sandbox_id, sandbox.live.pid)
            now = await self.engine.inspect(sandbox_id)
            if (now.pid, now.started_at) != (sandbox.live.pid, sandbox.live.started_at):
                await self.namespaces.unpin(sandbox_id)  # the pid may be a stranger's by now
                return
            path = self.namespaces.path(sandbox_id)
            await self.records.try_change(sandbox_id, lambda record: replace(record, netns_path=path))


def _log_path(sandbox: Sandbox, record: ContainerRecord) -> str:
    try:
        return make_log_path(sandbox.record.config.log_directory, record.config.log_path)
    except CRIError:
        return ""


def _is(kind: str, live: EngineContainer, recorded: Collection[str]) -> bool:
    """Whether it is a pod's: by label and, unless a record tells of it, by name, since a container of anybody's has the
    labels of its image."""
    return live.labels.get(labels.TYPE) == kind and (live.id in recorded or parse_name(live.name) is not None)
