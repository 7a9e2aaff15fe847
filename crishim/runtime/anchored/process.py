"""The process of an anchored pod whose containers share a PID namespace: it is that namespace's first, and reaps.

It is the pod's object, started by the front in the pod's namespaces. The pod does not depend on it: where it ended,
which ends all that lives in its PID namespace, or was taken away, it comes again with the next container, or with the
next comparison.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from crishim.aiokit.locks import KeyedLocks
from crishim.aiokit.steps import step
from crishim.checkpoint.record import Phase
from crishim.engine.api import Engine
from crishim.engine.values import ContainerSpec, EngineContainer, EngineFacts
from crishim.errors import CRIError, EngineError, EngineNotFound, EngineUnavailable, SandboxNotReady
from crishim.front import idmap
from crishim.model import PodSandboxConfig
from crishim.network.namespaces import NetworkNamespaces
from crishim.runtime.anchored.anchor import Anchor
from crishim.runtime.anchored.carrier import need_twin, options_of, shares_processes
from crishim.runtime.anchored.object import find_object, for_anchored, spec_again
from crishim.runtime.anchored.pod import kinds_of
from crishim.runtime.anchored.shifted import place_of
from crishim.runtime.core import RuntimeSettings
from crishim.runtime.host import Host
from crishim.runtime.index import Index
from crishim.runtime.names import make_sandbox_name
from crishim.runtime.objects import Sandbox
from crishim.runtime.records import Records
from crishim.runtime.spec.namespaces import own_user
from crishim.runtime.spec.sandbox import PAUSE_USER

log = logging.getLogger(__name__)

MakeObject = Callable[[str, ContainerSpec], Awaitable[str]]
"""Makes the engine's container of this name, from the sandbox image; gives its id."""


def make_object_spec(
    config: PodSandboxConfig, spec: ContainerSpec, sandbox_id: str, host: Host, anchor: str
) -> ContainerSpec:
    """What the object of an anchored pod is: a sandbox's `spec`, for the process where the pod has one.

    `anchor`: what a process says to the engine of its network; the front puts the pod's namespaces in the place of the
    anchor's, as it does for containers, and the pod's names and settings are those of the namespaces. Raises
    FrontFailed.
    """
    spec = for_anchored(spec, sandbox_id)
    if not shares_processes(config):
        return spec
    user = own_user(options_of(config))
    narrow = user is not None and min(user.uids[0].length, user.gids[0].length) <= PAUSE_USER
    return replace(
        spec,
        runtime=need_twin(spec.runtime, host),
        network_mode="host" if spec.network_mode == "host" else anchor,
        ipc_mode="host" if spec.ipc_mode == "host" else "private",
        hostname="",
        sysctls={},
        # The image's user has no place in a smaller user namespace, whose root may do nothing outside of it.
        user="0:0" if narrow and not spec.user else spec.user,
    )


class Processes:
    """Sees to it that they run; asks the engine only where that is not known."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        make: MakeObject,
        anchor: Anchor,
        index: Index,
        records: Records,
        namespaces: NetworkNamespaces,
        facts: Callable[[], EngineFacts | None],
        host: Callable[[], Host],
        settings: RuntimeSettings,
    ) -> None:
        self._engine = engine
        self._make = make
        self._anchor = anchor
        self._index = index
        self._records = records
        self._namespaces = namespaces
        self._facts = facts
        self._host = host
        self._settings = settings
        self._known: dict[str, str] = {}
        """Sandbox id to the object's, of those that run as far as is known."""
        self._locks = KeyedLocks()

    def __repr__(self) -> str:
        return f"<Processes {len(self._known)} known>"

    def forget(self, object_id: str = "") -> None:
        """Something happened to an object, or (without its id) to the engine: the next who needs it looks."""
        for sandbox_id, known in tuple(self._known.items()):
            if object_id in ("", known):
                del self._known[sandbox_id]

    async def ensure(self, sandbox_id: str, *, look: bool = False) -> str:
        """Return the object's id when the process runs. Raises SandboxNotReady, FrontFailed, EngineConflict where
        somebody else's container has its name, and the engine's errors. `look`: ask the engine also where it is
        known, since events can be lost."""
        if (known := self._known.get(sandbox_id)) and not look:
            return known
        async with self._locks.hold(sandbox_id):
            if (known := self._known.get(sandbox_id)) and not look:
                return known
            if self._need(sandbox_id).record.phase is not Phase.READY:
                raise SandboxNotReady(f"sandbox {sandbox_id[:13]} is not ready", sandbox=sandbox_id)
            self._known.pop(sandbox_id, None)
            with step("pod's process"):
                return await self._ensure(sandbox_id)

    async def start(self, sandbox_id: str) -> None:
        """Start the process of a pod that is being made: object and namespaces are there. Raises as `ensure` does."""
        async with self._locks.hold(sandbox_id):
            await self._start(sandbox_id, self._need(sandbox_id).object_id)

    async def runs(self, sandbox_id: str) -> bool:
        """Whether it runs right now. Raises the engine's errors."""
        object_id = self._need(sandbox_id).object_id
        with suppress(EngineNotFound):
            if object_id and (await self._engine().inspect(object_id)).pid:
                return True
        self.forget(object_id)
        return False

    async def end(self, sandbox_id: str, kill: Callable[[str], Awaitable[None]]) -> None:
        """End it, with all that lives in its PID namespace, by `kill`; one that does not run is success."""
        async with self._locks.hold(sandbox_id):
            sandbox = self._index.sandbox(sandbox_id)
            self._known.pop(sandbox_id, None)
            if sandbox is None:
                return
            live = await find_object(self._engine(), sandbox)
            if live is not None and live.pid:
                with suppress(EngineNotFound):
                    await kill(live.id)

    async def make_object(self, sandbox_id: str) -> str:
        """Make the object of a pod that has none, and note it. Raises the engine's errors."""
        sandbox, facts, host = self._need(sandbox_id), self._facts(), self._host()
        assert facts is not None, "who can create containers is connected"
        record = sandbox.record
        spec = spec_again(record, facts, host, self._settings)
        spec = make_object_spec(record.config, spec, sandbox_id, host, self._anchor.network_mode)
        log.info("the engine's object of sandbox %s was gone: it is made again", sandbox_id[:13])
        return await self._make(make_sandbox_name(sandbox.metadata), spec)

    async def note(self, sandbox_id: str, object_id: str) -> None:
        """Remember which object a pod has now; what was mounted for the one before goes."""
        sandbox = self._need(sandbox_id)
        before = sandbox.record.object_id
        await self._records.try_change(sandbox_id, lambda record: replace(record, object_id=object_id))
        if before not in ("", object_id) and "user" in kinds_of(sandbox.record.config):
            try:
                await asyncio.to_thread(idmap.release, place_of(self._namespaces.folder(sandbox_id), before))
            except OSError as error:
                log.warning("sandbox %s: %s", sandbox_id[:13], error)  # it goes with the pod

    async def _ensure(self, sandbox_id: str) -> str:
        for last in (False, True):
            sandbox = self._need(sandbox_id)
            if not sandbox.host_network:
                await self._anchor.ensure(look=last)
            live = await find_object(self._engine(), sandbox)
            if live is not None and not self._fits(sandbox, live):
                log.warning(
                    "the process of sandbox %s is made anew: it is not one that containers can join", live.id[:13]
                )
                await self._remove(live.id)
                live = None
            object_id = live.id if live is not None else await self.make_object(sandbox_id)
            await self.note(sandbox_id, object_id)
            if live is not None and live.pid:
                self._known[sandbox_id] = object_id
                return object_id
            try:
                await self._start(sandbox_id, object_id)
            except EngineUnavailable:
                raise
            except CRIError:
                if last:
                    raise
                # Whatever is the matter with this one, another one may do.
                await self._remove(object_id)
            else:
                log.info("the process of sandbox %s (%s) runs", sandbox_id[:13], object_id[:13])
                return object_id
        raise AssertionError("the second round returns or raises")

    def _fits(self, sandbox: Sandbox, live: EngineContainer) -> bool:
        """Whether an object runs in the pod's namespaces, or can be started: an engine names the very anchor that there
        was when it was made."""
        if live.pid:
            kinds = kinds_of(sandbox.record.config)
            return not self._namespaces.strangers(sandbox.id, kinds, live.pid, self._host().process)
        return sandbox.host_network or self._anchor.is_of(live.network_mode)

    async def _start(self, sandbox_id: str, object_id: str) -> None:
        engine = self._engine()
        with step("engine start", engine=True):
            await engine.start(object_id)
        live = await engine.inspect(object_id)
        if not live.pid:
            raise EngineError(
                f"the process of sandbox {sandbox_id[:13]} ended right after its start "
                f"(exit code {live.exit_code}) {live.error}".rstrip(),
                sandbox=sandbox_id,
            )
        kinds = kinds_of(self._need(sandbox_id).record.config)
        if astray := self._namespaces.strangers(sandbox_id, kinds, live.pid, self._host().process):
            with suppress(EngineNotFound):
                await engine.kill(object_id, "SIGKILL")
            raise EngineError(
                f"the process of sandbox {sandbox_id[:13]} is not in its pod's {', '.join(astray)} namespace: the "
                "runtime front did not take part in its start",
                sandbox=sandbox_id,
            )
        self._known[sandbox_id] = object_id

    async def _remove(self, object_id: str) -> None:
        with suppress(EngineNotFound):
            await self._engine().remove(object_id)

    def _need(self, sandbox_id: str) -> Sandbox:
        sandbox = self._index.sandbox(sandbox_id)
        if sandbox is None:
            raise SandboxNotReady(f"sandbox {sandbox_id[:13]} was removed", sandbox=sandbox_id)
        return sandbox
