"""`Node`: a runtime put together from its backends, started and closed in the right order.

It names no concrete backend: the composition root and the use-case tests choose those.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from crishim.aiokit.background import Background
from crishim.aiokit.gather import gather_all
from crishim.aiokit.locks import KeyedLocks
from crishim.checkpoint.api import CheckpointStore
from crishim.engine.api import Engine
from crishim.engine.values import ContainerSpec, EngineEvent, EngineFacts, LogSpool
from crishim.errors import CheckpointFailed, CRIError, EngineUnavailable
from crishim.front.abilities import recursing
from crishim.front.markers import ExecMarkers
from crishim.images.core import ImageSettings
from crishim.images.service import Images
from crishim.images.views import ImageViews, SimulatedViews
from crishim.logs.api import LogWriter
from crishim.network.api import Attached, PodAttachment, PodNetwork
from crishim.network.namespaces import NetworkNamespaces
from crishim.runtime import host, labels
from crishim.runtime.anchored.anchor import Anchor
from crishim.runtime.anchored.process import Processes
from crishim.runtime.anchored.upkeep import Upkeep
from crishim.runtime.core import Runtime, RuntimeSettings
from crishim.runtime.engine_link import COMPARE_EVERY, EngineLink
from crishim.runtime.image_volumes import ImageVolumes
from crishim.runtime.index import Change, Index
from crishim.runtime.last_seen import LastSeen, note_last_seen, read_last_seen
from crishim.runtime.log_relay import LogRelay
from crishim.runtime.logs import Logs
from crishim.runtime.names import Names
from crishim.runtime.objects import Container
from crishim.runtime.reconcile import Reconciler
from crishim.runtime.records import Records
from crishim.runtime.unchanged import Lives, lives
from crishim.runtime.watch import RETRY, Watch

log = logging.getLogger(__name__)

_CLEAR_LIMIT = 30.0
"""Seconds that a start waits for plugins to release what unknown pods left: one may hang."""


class Node:
    """Owns the collaborators of the verbs. `runtime` is usable once `start` has returned."""

    runtime: Runtime

    def __init__(
        self,
        *,
        engine: Engine,
        store: CheckpointStore,
        network: PodNetwork,
        namespaces: NetworkNamespaces,
        log_writer: LogWriter,
        log_folder: Path | None = None,
        views: ImageViews | None = None,
        desk: Path | None = None,
        settings: RuntimeSettings | None = None,
        image_settings: ImageSettings | None = None,
        compare_every: float = COMPARE_EVERY,
        look_again_after: float = RETRY,
        lives: Lives = lives,
    ) -> None:
        """`log_folder`: where spools of logs lie that only the engine can read; None: such logs are not written.
        `views`: how images are shown where the engine cannot; None: in memory.
        `desk`: where fronts ask, which also tells this server's anchor from others'; None: nowhere, and then no runtime
        has a twin.
        `compare_every`: seconds between comparisons with the engine's list. `look_again_after`: seconds until an
        object is asked for again that the engine could not tell of. `lives`: how a container's process is known."""
        self._engine = engine
        self._store = store
        self._desk = desk
        self._network = network
        self._namespaces = namespaces
        self._settings = settings or RuntimeSettings()
        self._image_settings = image_settings
        self._exec_markers = ExecMarkers(desk)
        self._host = host.Host()
        self._index = Index()
        self._index.subscribe(self._unmark)
        self._names = Names()
        self._locks = KeyedLocks()
        self._background = Background()
        self._records = Records(self._index, store, self._background)
        limits = LogSpool(max_size=self._settings.log_spool_size, max_files=self._settings.log_spool_files)
        relay = LogRelay(engine, log_folder, limits)
        self._logs = Logs(log_writer, relay, self._index, self._records, self._background)
        self._watch = Watch(engine, self._index, self._records, self._logs, retry=look_again_after)
        self._link = EngineLink(
            engine,
            on_connect=self._on_connect,
            on_event=self._on_event,
            on_compare=lambda: self.compare(thorough=False),
            compare_every=compare_every,
        )
        self._reading = False
        self._facts: EngineFacts | None = None
        self._images = self._make_images()
        self._anchor = Anchor(self._engine_now, self._images, lambda: self._facts, lambda: self._host, str(desk or ""))
        self._processes = Processes(
            self._engine_now,
            self._make_object,
            self._anchor,
            self._index,
            self._records,
            namespaces,
            lambda: self._facts,
            lambda: self._host,
            self._settings,
        )
        self._upkeep = Upkeep(
            engine=engine,
            anchor=self._anchor,
            processes=self._processes,
            index=self._index,
            records=self._records,
            namespaces=namespaces,
            locks=self._locks,
            host=lambda: self._host,
            images=self._images,
            background=self._background,
        )
        self._reconciler = Reconciler(
            engine=engine,
            store=store,
            index=self._index,
            records=self._records,
            watch=self._watch,
            logs=self._logs,
            names=self._names,
            locks=self._locks,
            namespaces=namespaces,
            network=network,
            upkeep=self._upkeep,
            lives=lives,
        )
        self._volumes = ImageVolumes(
            views or SimulatedViews(),
            engine=self._engine_now,
            facts=lambda: self._link.facts,
            index=self._index,
            locks=self._locks,
        )
        self._watching: asyncio.Task[None] | None = None

    def _make_images(self) -> Images:
        def used_by(image_id: str) -> list[str]:
            containers = [c.id for c in self._index.containers() if image_id in c.record.images]
            return containers + [s.id for s in self._index.sandboxes() if s.record.image_ref == image_id]

        def handlers() -> tuple[str, ...]:
            facts = self._link.last_facts
            return facts.runtimes if facts else ()

        return Images(
            self._engine_now,
            self._background,
            settings=self._image_settings,
            used_by=used_by,
            handlers=handlers,
            facts=lambda: self._link.last_facts,
        )

    async def _make_object(self, name: str, spec: ContainerSpec) -> str:
        image = await self._images.ensure_sandbox_image()
        with self._images.hold(image):
            return await self._engine_now().create(name, replace(spec, image=image))

    def _engine_now(self) -> Engine:
        # While a new connection is being read, the link does not give the engine out yet.
        return self._engine if self._reading else self._link.engine

    async def start(self) -> None:
        """Open the store, read it, prepare the network, and begin to connect to the engine.

        Does not wait for the engine. Raises CheckpointFailed, the network's and the namespaces' errors.
        """
        await self._store.open()
        last_seen: LastSeen = await read_last_seen(self._store)
        await self._reconciler.load_records()
        await self._namespaces.start()
        await self._network.start()
        self.runtime = Runtime(
            link=self._link,
            records=self._records,
            network=self._network,
            namespaces=self._namespaces,
            images=self._images,
            volumes=self._volumes,
            anchor=self._anchor,
            processes=self._processes,
            watch=self._watch,
            logs=self._logs,
            host=lambda: self._host,
            index=self._index,
            names=self._names,
            last_seen=last_seen,
            locks=self._locks,
            background=self._background,
            exec_markers=self._exec_markers,
            settings=self._settings,
        )
        self._watching = asyncio.create_task(self._watch.run(), name="watch")
        await self._link.start()

    async def close(self, drain: float = 10.0) -> None:
        """Let what is under way come to its end within `drain` seconds, then close everything."""
        async with AsyncExitStack() as stack:  # in reverse order, each whatever became of the others
            stack.push_async_callback(self._store.close)
            stack.push_async_callback(self._engine.close)
            stack.push_async_callback(self._network.close)
            stack.push_async_callback(self._end_watching)
            stack.push_async_callback(self._link.close)
            await self._logs.close()
            for name in await self._background.drain(drain):
                log.warning("not finished at exit: %s", name)

    async def _end_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait((self._watching,))

    def _unmark(self, change: Change) -> None:
        if change.after is None and change.before is not None:
            self._exec_markers.drop(change.before.id)
            if isinstance(change.before, Container):
                self._upkeep.release(change.before)

    def _on_event(self, event: EngineEvent) -> None:
        if event.kind == "container":
            self._watch.mark(event.id)
            if (work := self._upkeep.begin(event)) is not None:
                self._background.start(work(), name=f"upkeep after {event.action} of {event.id[:13]}")
        else:
            self._images.on_event(event)

    async def _on_connect(self, facts: EngineFacts) -> None:
        found = host.detect(facts.daemon_pid, twins=facts.twins, desk=self._desk)
        self._host = replace(found, recursing=await recursing(facts.twins, found.twins))
        if self._host.remark:
            log.info(self._host.remark)
        if self._host.twins:
            log.info("the front stands before the runtimes %s", ", ".join(sorted(self._host.twins)))
        first = not self._link.loaded
        self._facts = facts
        self._anchor.forget()  # the engine may have been started again
        self._processes.forget()
        self._reading = True
        try:
            await self.compare()
        finally:
            self._reading = False
        if first:
            self._exec_markers.clear(lambda container_id: self._index.container(container_id) is not None)
            await self._clear_leftovers()
        try:
            await note_last_seen(self._store, facts)
        except CheckpointFailed as error:
            log.warning("what the engine is cannot be remembered for a start without it: %s", error)

    async def compare(self, *, thorough: bool = True) -> None:
        """Read everything of the engine now; what happens at each connection, and every `compare_every` seconds less
        than `thorough`: then what is as the engine's list shows it need not be asked for."""
        # Pods first: the images' part is longer on a node with many of them, and changes less.
        await self._reconciler.compare(thorough=thorough)
        try:
            await self._images.refresh()
        except EngineUnavailable:
            raise
        except CRIError as error:
            # The engine has just told of its pods, and what the image index lacks it is asked for one by one.
            log.warning("images cannot be read, the index may be behind until the next comparison: %s", error)
        await self._volumes.sweep()

    async def _clear_leftovers(self) -> None:
        """Pins and attachments that belong to no sandbox: left by a crash, or by an earlier boot.

        What the engine lists is kept, known or not: a pod whose record is lost and that the engine cannot tell of at
        this moment lives all the same.
        """
        try:
            async with asyncio.timeout(_CLEAR_LIMIT):
                listed = await self._engine.list_containers({labels.TYPE: ""})
                pins = await self._namespaces.pins()
                unknown = [pin for pin in pins if self._index.sandbox(pin) is None and pin not in listed]
                if unknown and await self._anchored_unread():
                    # The id of an anchored pod is in the labels of what could not be read.
                    listed, unknown = [*listed, *unknown], []
                # Side by side: a plugin that hangs must not keep the server from being ready once per pin.
                await gather_all(map(self._release, unknown))
                known = {s.id: s.record.network for s in self._index.sandboxes() if s.record.network is not None}
                await self._network.gc({object_id: Attached(backend="") for object_id in listed} | known)
        except TimeoutError:
            log.warning("what unknown pods left is not released within %g s; the next start tries again", _CLEAR_LIMIT)
        except CRIError as error:
            log.warning("what unknown pods left cannot be released: %s", error)

    async def _anchored_unread(self) -> bool:
        """Whether the engine has an object of an anchored pod that is not known to be anybody's."""
        objects = await self._engine.list_containers(labels.ANCHORED)
        return not {s.object_id for s in self._index.sandboxes()}.issuperset(objects)

    async def _release(self, sandbox_id: str) -> None:
        """Detach and unpin a pod of which the pin alone is left: its record was lost, and its sandbox was removed."""
        if await self._namespaces.inhabited(sandbox_id):
            log.warning("the namespace of unknown sandbox %s is in use: left alone", sandbox_id[:13])
            return
        log.info("releasing the network of unknown sandbox %s", sandbox_id[:13])
        path = self._namespaces.path(sandbox_id)
        # Whose it was is told by nothing any more; plugins go by the id.
        pod = PodAttachment(sandbox_id=sandbox_id, netns_path=path, name="", namespace="", uid="")
        try:
            await self._network.detach(pod, None)
        except CRIError as error:
            # The pin stays, so that the next start tries again.
            log.warning("unknown sandbox %s cannot be detached: %s", sandbox_id[:13], error)
        else:
            await self._namespaces.unpin(sandbox_id)
