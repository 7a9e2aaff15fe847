"""The anchor: one idle container per node, in an empty network namespace, that the containers of anchored pods name as
their network.

They never stay in its namespaces: the front puts those of the pod in their place. Should it ever fail to, the container
has no network at all, rather than the host's. The anchor is no pod and no container to CRI.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable

from crishim.aiokit.steps import step
from crishim.engine.api import Engine
from crishim.engine.values import ContainerPhase, ContainerSpec, EngineContainer, EngineFacts, LogSpool
from crishim.errors import CRIError, EngineConflict, EngineNotFound, EngineUnavailable
from crishim.images.service import Images
from crishim.runtime import labels
from crishim.runtime.host import Host
from crishim.runtime.spec.cgroup import cgroupns_mode
from crishim.runtime.spec.sandbox import OOM_SCORE, PAUSE_USER

log = logging.getLogger(__name__)


class Anchor:
    """Sees to it that the anchor runs; asks the engine only where that is not known."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        images: Images,
        facts: Callable[[], EngineFacts | None],
        host: Callable[[], Host],
        home: str,
    ) -> None:
        """`home`: the folder that tells this server from others on the same engine: each has its own anchor."""
        self._engine = engine
        self._images = images
        self._facts = facts
        self._host = host
        self._home = home
        self.name = f"crishim-anchor-{hashlib.sha256(home.encode()).hexdigest()[:12]}"
        self.id = ""
        """Of the anchor that runs, as far as is known; empty: not known."""
        self._making = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Anchor {self.name} {self.id[:13] or 'unknown'}>"

    @property
    def network_mode(self) -> str:
        """What containers say to the engine, which makes the id of it: they name this very anchor for ever."""
        return f"container:{self.name}"

    def is_of(self, network_mode: str) -> bool:
        """Whether the engine's word for a container's network means the anchor that runs."""
        return network_mode.removeprefix("container:") in (self.name, self.id)

    def forget(self) -> None:
        """Something happened to it, or to the engine: the next who needs it looks."""
        self.id = ""

    async def ensure(self, *, look: bool = False, wait: bool = True) -> None:
        """Return when it runs. Raises EngineConflict where somebody else's container has its name, and the engine's
        errors. `look`: ask the engine also where it is known, since events can be lost. `wait`: also until a sandbox
        image is pulled."""
        if self.id and not look:
            return
        async with self._making:
            if self.id and not look:
                return
            with step("anchor"):
                self.id = await self._ensure(wait)

    async def _ensure(self, wait: bool) -> str:
        engine = self._engine()
        for last in (False, True):
            live = await self._find(engine)
            if live is None:
                container_id = await self._create(engine, wait)
            elif live.labels.get(labels.ANCHOR) != self._home:
                raise EngineConflict(f"{self.name} is not the anchor of this server but container {live.id[:13]}")
            elif live.phase is ContainerPhase.RUNNING:
                return live.id
            else:
                container_id = live.id
            try:
                await engine.start(container_id)
                log.info("the anchor %s (%s) runs", self.name, container_id[:13])
                return container_id
            except EngineNotFound:
                if last:
                    raise  # it goes as soon as it is there
            except EngineUnavailable:
                raise
            except CRIError:
                if last:
                    raise
                # Whatever is the matter with this one, another one may do.
                await self._remove(engine, container_id)
        raise AssertionError("the second round returns or raises")

    async def _find(self, engine: Engine) -> EngineContainer | None:
        try:
            return await engine.inspect(self.name)
        except EngineNotFound:
            return None

    async def _create(self, engine: Engine, wait: bool) -> str:
        image = await self._images.ensure_sandbox_image(wait=wait)
        with self._images.hold(image):
            return await engine.create(self.name, self._spec(image))

    async def _remove(self, engine: Engine, container_id: str) -> None:
        try:
            await engine.remove(container_id)
        except EngineNotFound:
            return

    def _spec(self, image: str) -> ContainerSpec:
        facts = self._facts()
        assert facts is not None, "who can create containers is connected"
        return ContainerSpec(
            image=image,
            labels={labels.ANCHOR: self._home},
            user=f"{PAUSE_USER}:{PAUSE_USER}",
            runtime=facts.default_runtime,
            network_mode="none",
            ipc_mode="private",
            cgroupns_mode=cgroupns_mode(facts, privileged=False),
            readonly_rootfs=True,
            no_new_privileges=True,
            oom_score_adj=self._host().clamp_oom_score(OOM_SCORE),
            log_spool=LogSpool(max_size=1 << 20, max_files=1),
        )
