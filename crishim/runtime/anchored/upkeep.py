"""What keeps anchored pods true: their pins are looked at, their objects made again, and the anchor held up."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from crishim.aiokit.background import Background
from crishim.aiokit.locks import KeyedLocks
from crishim.checkpoint.record import Carrier, SandboxRecord
from crishim.engine.api import Engine
from crishim.engine.values import EngineContainer, EngineEvent
from crishim.errors import CRIError
from crishim.images.service import Images
from crishim.network.namespaces import NetworkNamespaces
from crishim.runtime import labels
from crishim.runtime.anchored.anchor import Anchor
from crishim.runtime.anchored.carrier import shares_processes
from crishim.runtime.anchored.object import find_object
from crishim.runtime.anchored.pod import kinds_of
from crishim.runtime.anchored.process import Processes
from crishim.runtime.anchored.shifted import has_shifted, release_shifted, shifted_for
from crishim.runtime.host import Host
from crishim.runtime.index import Index
from crishim.runtime.objects import Container, Sandbox
from crishim.runtime.records import Records

log = logging.getLogger(__name__)

_ENDS = frozenset(("die", "destroy", "pause", "rename"))
"""What an anchor does not go on after, or not under its name."""


@dataclass(frozen=True, kw_only=True)
class Upkeep:
    """The part of each comparison that is about anchored pods."""

    engine: Engine
    anchor: Anchor
    processes: Processes
    index: Index
    records: Records
    namespaces: NetworkNamespaces
    locks: KeyedLocks
    images: Images
    host: Callable[[], Host]
    background: Background

    async def holds(self, record: SandboxRecord) -> bool:
        """Whether all of a recorded pod's namespaces are held; True for a pod that has a process."""
        if record.carrier is not Carrier.ANCHORED:
            return True
        return await self.namespaces.holds(record.id, kinds_of(record.config))

    def anchored(self) -> list[Sandbox]:
        """Those that are listed."""
        return [s for s in self.index.sandboxes() if s.anchored]

    async def note_objects(self, found: Iterable[EngineContainer]) -> set[str]:
        """Remember which objects the engine has now; returns the ids of the sandboxes that have one."""
        having = set()
        for live in found:
            sandbox = self.index.sandbox(labels.anchored_id(live.labels))
            if sandbox is None or not sandbox.anchored:
                continue
            having.add(sandbox.id)
            if not live.pid:
                self.processes.forget(live.id)
            # One that is being made or taken away knows better.
            if sandbox.record.object_id != live.id and sandbox.ready and not self.locks.locked(sandbox.id):
                await self.records.try_change(sandbox.id, _with_object(live.id))
        return having

    async def tend(self, lacking: Collection[str], alone: Callable[[str, Awaitable[None]], Awaitable[None]]) -> None:
        """Look at what anchored pods depend on. `lacking`: ids of those whose object the engine does not have."""
        for sandbox in self.anchored():
            await alone(sandbox.id, self.look(sandbox.id))
            if has_shifted(sandbox):
                await alone(sandbox.id, self._release_left(sandbox))
        pods = [s for s in self.anchored() if s.ready]
        if not pods:
            return
        await alone(self.anchor.name, self.anchor.ensure(look=True, wait=False))
        for sandbox in pods:
            if sandbox.id in lacking or shares_processes(sandbox.record.config):
                again = self.make_again(sandbox.id, look=sandbox.id in lacking, wait=False)
                await alone(sandbox.id, again)
            for container in self.index.containers_of(sandbox.id):
                await alone(container.id, self._check(sandbox, container))

    async def look(self, sandbox_id: str) -> None:
        """Look whether a pod's namespaces are held. Raises NetnsError; nothing changes then."""
        sandbox = self.index.sandbox(sandbox_id)
        if sandbox is None or not sandbox.anchored:
            return
        held = await self.holds(sandbox.record)
        now = self.index.sandbox(sandbox_id)
        if now is not None and now.held != held and now.held == sandbox.held:
            if not held and now.ready:
                log.warning("the namespaces of sandbox %s are gone: it is not ready any more", sandbox_id[:13])
            self.index.put_sandbox(replace(now, held=held))

    async def make_again(self, sandbox_id: str, *, look: bool = True, wait: bool = True) -> None:
        """Make the object of a pod that runs, unless there is one; where the pod has a process, it runs then.

        `look`: ask the engine also where a process is known to run. `wait`: also until a sandbox image is pulled.
        """
        if look:  # before the lock: a pull takes its time, in which the pod can be stopped
            await self.images.ensure_sandbox_image(wait=wait)
        async with self.locks.hold(sandbox_id):
            sandbox = self.index.sandbox(sandbox_id)
            if sandbox is None or not sandbox.anchored or not sandbox.ready:
                return
            if shares_processes(sandbox.record.config):
                await self.processes.ensure(sandbox_id, look=look)
                return
            live = await find_object(self.engine, sandbox)
            object_id = live.id if live is not None else await self.processes.make_object(sandbox_id)
            await self.processes.note(sandbox_id, object_id)

    def release(self, container: Container) -> None:
        """A container has gone, perhaps by somebody else's hand: what was mounted for it goes, too."""
        sandbox = self.index.sandbox(container.sandbox_id)
        if has_shifted(sandbox):
            work = release_shifted(self.namespaces, sandbox, container.id)
            self.background.start(work, name=f"release of {container.id[:13]}")

    async def _release_left(self, sandbox: Sandbox) -> None:
        """What is mounted for containers that went while nobody looked."""
        for container_id in await shifted_for(self.namespaces, sandbox):
            now = self.index.sandbox(sandbox.id)
            process = now.object_id if now is not None else ""
            if container_id != process and self.index.container(container_id) is None:
                await release_shifted(self.namespaces, sandbox, container_id)

    async def _check(self, sandbox: Sandbox, container: Container) -> None:
        """A container that somebody started again is where it belongs, or it is killed."""
        if not container.running or not container.live.pid or self.locks.locked(container.id):
            return
        kinds, pid = kinds_of(sandbox.record.config), container.live.pid
        astray = self.namespaces.strangers(sandbox.id, kinds, pid, self.host().process)
        if not astray:
            return
        now = await self.engine.inspect(container.id)
        if now.pid == container.live.pid and now.started_at == container.live.started_at:
            log.error("container %s is killed: %s", container.id[:13], words_for(astray))
            await self.engine.kill(container.id, "SIGKILL")

    def begin(self, event: EngineEvent) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """What is to be done because of something that happened to an object; None: nothing."""
        if event.id == self.anchor.id and event.action in _ENDS:
            self.anchor.forget()
            return self._hold_up
        if event.action in _ENDS:
            self.processes.forget(event.id)
        if event.action == "destroy" and (sandbox_id := labels.anchored_id(event.attributes)):
            sandbox = self.index.sandbox(sandbox_id)
            if sandbox is not None and sandbox.ready and sandbox.record.object_id in ("", event.id):
                return lambda: self.quietly(sandbox_id, self.make_again(sandbox_id))
        return None

    async def _hold_up(self) -> None:
        if any(s.ready for s in self.anchored()):
            await self.quietly(self.anchor.name, self.anchor.ensure())

    async def quietly(self, name: str, work: Awaitable[None]) -> None:
        """What fails now is for the next comparison."""
        try:
            await work
        except CRIError as error:
            log.warning("%s: %s", name[:32], error)


def words_for(astray: Iterable[str]) -> str:
    """Words for a container that is in other namespaces than its pod's."""
    return f"it is not in its pod's {', '.join(astray)} namespace: the runtime front did not take part in its start"


def _with_object(object_id: str) -> Callable[[SandboxRecord], SandboxRecord]:
    return lambda record: replace(record, object_id=object_id)


def known_objects(sandboxes: Iterable[Sandbox]) -> Mapping[str, str]:
    """The engine's ids of the sandboxes' objects, as far as they are known, to the sandboxes' ids."""
    return {s.object_id: s.id for s in sandboxes if s.object_id}
