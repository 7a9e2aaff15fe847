"""Joins what the engine has with what the checkpoints say: at start, after each outage, and every half minute.

One bad object never fails the rest: it is told in the log and left alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from crishim.checkpoint.api import CheckpointStore
from crishim.checkpoint.record import SandboxRecord
from crishim.engine.api import Engine
from crishim.engine.values import EngineContainer
from crishim.errors import CRIError, EngineNotFound, EngineUnavailable
from crishim.network.api import PodNetwork
from crishim.network.namespaces import NetworkNamespaces
from crishim.runtime import labels
from crishim.runtime.adopt import adopt_container, adopt_sandbox
from crishim.runtime.index import Index
from crishim.runtime.names import Names
from crishim.runtime.objects import Container, Sandbox
from crishim.runtime.spec.container import make_log_path
from crishim.runtime.watch import Watch

log = logging.getLogger(__name__)

_AT_ONCE = 8
"""Inspects asked at once while everything is read."""


@dataclass(frozen=True, kw_only=True)
class Reconciler:
    """Makes the index true by reading everything."""

    engine: Engine
    store: CheckpointStore
    index: Index
    watch: Watch
    names: Names
    namespaces: NetworkNamespaces
    network: PodNetwork

    async def load_records(self) -> None:
        """Put what the store holds into the index; the engine's part follows with `compare`."""
        loaded = await self.store.load()
        for thing in loaded.set_aside:
            log.error("checkpoint %s is unreadable (%s); kept at %s", thing.name, thing.reason, thing.kept_at)
        for record in loaded.records:
            self.index.put_sandbox(Sandbox(record=record, live=None))

    async def compare(self) -> None:
        """Read all of the engine's containers that belong to pods. Raises EngineUnavailable, EngineTimeout."""
        before = {c.id for c in self.index.containers()} | {s.id for s in self.index.sandboxes()}
        listed = set(await self.engine.list_containers({labels.TYPE: ""}))
        found = await self._inspect_all(listed | before)
        for live in sorted(found, key=lambda c: c.created_at):
            ours = live.labels.get(labels.TYPE) == labels.SANDBOX
            if ours and self.index.sandbox(live.id) is None and not self.names.busy(live.name):
                await self._adopt_sandbox(live)
        for live in sorted(found, key=lambda c: c.created_at):
            if live.labels.get(labels.TYPE) == labels.CONTAINER and self.index.container(live.id) is None:
                await self._adopt_container(live)
        for gone in before - {live.id for live in found}:
            await self.watch.vanished(gone)
        await self._forget_lost_containers(listed)

    async def _inspect_all(self, ids: Iterable[str]) -> list[EngineContainer]:
        slots = asyncio.Semaphore(_AT_ONCE)
        found: list[EngineContainer] = []

        async def look(container_id: str) -> None:
            async with slots:
                stamp = self.watch.stamp()
                try:
                    live = await self.engine.inspect(container_id)
                    found.append(live)
                    if self.watch.counts(container_id, stamp):
                        self.watch.apply(live)
                    else:
                        self.watch.mark(container_id)
                except EngineNotFound:
                    pass  # removed since it was listed
                except EngineUnavailable:
                    raise
                except CRIError as error:
                    log.warning("container %s cannot be inspected: %s", container_id[:13], error)
                    self.watch.mark(container_id)

        try:
            async with asyncio.TaskGroup() as group:
                for container_id in ids:
                    group.create_task(look(container_id), name=f"inspect {container_id[:13]}")
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return found

    async def _adopt_sandbox(self, live: EngineContainer) -> None:
        path = self.namespaces.path(live.id)
        record = adopt_sandbox(live, path, has_addresses=self.network.name != "none")
        if record is None:
            return
        if record.netns_path and live.pid and not self.namespaces.pinned(live.id):
            try:
                await self.namespaces.pin(live.id, live.pid)
            except CRIError as error:
                log.warning("the namespace of sandbox %s cannot be pinned: %s", live.id[:13], error)
        log.info("sandbox %s (%s) has no record: read from its labels", live.id[:13], live.name)
        self.index.put_sandbox(Sandbox(record=record, live=live))
        await self.store.put(record)

    async def _adopt_container(self, live: EngineContainer) -> None:
        sandbox = self.index.sandbox(live.labels.get(labels.SANDBOX_ID, ""))
        if sandbox is None or self.names.busy(live.name):
            return
        record = sandbox.record.containers.get(live.id) or adopt_container(live, live.image_id)
        if record is None:
            return
        try:
            log_path = make_log_path(sandbox.record.config.log_directory, record.config.log_path)
        except CRIError:
            log_path = ""
        log_path = log_path or live.labels.get(labels.LOG_PATH, "")
        self.index.put_container(
            Container(record=record, sandbox_id=sandbox.id, live=live, log_path=log_path, found=True)
        )
        if live.id not in sandbox.record.containers:
            containers = {**sandbox.record.containers, live.id: record}
            await self._put(sandbox, replace(sandbox.record, containers=containers))

    async def _forget_lost_containers(self, listed: set[str]) -> None:
        """Containers that a record tells of but that the engine has no more."""
        for sandbox in tuple(self.index.sandboxes()):
            rest = {k: v for k, v in sandbox.record.containers.items() if k in listed or self.index.container(k)}
            if len(rest) != len(sandbox.record.containers):
                await self._put(sandbox, replace(sandbox.record, containers=rest))

    async def _put(self, sandbox: Sandbox, record: SandboxRecord) -> None:
        self.index.put_sandbox(replace(sandbox, record=record))
        await self.store.put(record)
