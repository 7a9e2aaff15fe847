"""A world of fakes (engine, store, network, namespaces), a server in it, and what must hold whatever happened."""

from __future__ import annotations

import asyncio
import inspect
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from crishim.checkpoint.memory import MemoryStore
from crishim.checkpoint.record import Carrier
from crishim.engine.simulated import SimulatedEngine
from crishim.engine.simulated.facts import default_facts
from crishim.engine.values import EngineContainer
from crishim.front.twins import TwinConf, conf_path
from crishim.images.views import SimulatedViews
from crishim.logs.inline import InlineLogWriter
from crishim.model import (
    ContainerConfig,
    ContainerMetadata,
    DNSConfig,
    ImageSpec,
    LinuxContainerResources,
    LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext,
    NamespaceMode,
    NamespaceOption,
    PodSandboxConfig,
    PodSandboxMetadata,
)
from crishim.model.streams import ProcessStreams, WantedStreams
from crishim.network.namespaces import SimulatedNamespaces
from crishim.runtime import labels
from crishim.runtime.container_attach import prepare_attach
from crishim.runtime.container_create import create_container
from crishim.runtime.container_exec import prepare_exec
from crishim.runtime.container_exec_sync import exec_sync
from crishim.runtime.container_remove import remove_container
from crishim.runtime.container_reopen_log import reopen_container_log
from crishim.runtime.container_start import start_container
from crishim.runtime.container_stop import stop_container
from crishim.runtime.container_update import update_container_resources
from crishim.runtime.core import Runtime
from crishim.runtime.labels import IMAGE_VIEW, TYPE, VIEWED_IMAGE
from crishim.runtime.node import Node
from crishim.runtime.sandbox_remove import remove_pod_sandbox
from crishim.runtime.sandbox_run import run_pod_sandbox
from crishim.runtime.sandbox_stop import stop_pod_sandbox
from crishim.runtime.sandbox_update import update_pod_sandbox_resources
from crishim.testing.fake_network import FakePodNetwork
from tests.usecase.runtime.virtual_time import LoopClock, idle

T = TypeVar("T")

HOST_NETWORK = LinuxPodSandboxConfig(
    security_context=LinuxSandboxSecurityContext(namespace_options=NamespaceOption(network=NamespaceMode.NODE))
)


def pod_linux(**options: NamespaceMode) -> LinuxPodSandboxConfig:
    """Of a pod as kubelets ask for them: each container has its own processes."""
    modes = NamespaceOption(**cast(Any, {"pid": NamespaceMode.CONTAINER} | options))
    return LinuxPodSandboxConfig(security_context=LinuxSandboxSecurityContext(namespace_options=modes))


SHARING = pod_linux(pid=NamespaceMode.POD)
ANCHORED_HOST_NETWORK = pod_linux(network=NamespaceMode.NODE)
DNS = DNSConfig(servers=("10.0.0.10",), searches=("svc.cluster.local",))


class Killed(Exception):  # noqa: N818 - what a killed process would not live to see
    """The server is dead: nothing that it does takes effect any more."""


class _Line:
    """What a server holds of the outside world: dead when the server was killed, and lasting when it is closed."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self.cut = False

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, name)
        if not callable(attribute):
            return attribute
        if name == "close":
            return self._close

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.cut:
                raise Killed
            return attribute(*args, **kwargs)

        async def call_async(*args: Any, **kwargs: Any) -> Any:
            result = await call(*args, **kwargs)
            if self.cut:
                raise Killed
            return result

        return call_async if inspect.iscoroutinefunction(attribute) else call

    async def _close(self) -> None:
        return


class Server:
    """One life of the server: a node whose lines to the world can be cut."""

    def __init__(self, world: World, wrap: Callable[[str, Any], Any], **settings: Any) -> None:
        self.lines = {
            name: _Line(wrap(name, getattr(world, name))) for name in ("engine", "store", "network", "namespaces")
        }
        given = {
            "log_writer": wrap("logs", InlineLogWriter()),
            "log_folder": world.folder / "spools",
            "views": _Line(wrap("views", world.views)),
            "desk": world.folder / "front.sock",
            "lives": world.lives,
        }
        self.node = Node(**cast(Any, self.lines | given | settings))
        self._before = asyncio.all_tasks()

    async def start(self) -> None:
        await self.node.start()

    async def kill(self) -> None:
        """What kill -9 does: from now on nothing takes effect; its tasks end."""
        for line in self.lines.values():
            line.cut = True
        while tasks := asyncio.all_tasks() - self._before - {cast(Any, asyncio.current_task())}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


class World:
    """What outlives a server, and the server that lives at this moment."""

    def __init__(
        self,
        folder: Path,
        *,
        wrap: Callable[[str, Any], Any] = lambda _, target: target,
        carrier: Carrier = Carrier.PAUSE,
    ) -> None:
        """`carrier`: of the pods; with `ANCHORED` the engine has a front."""
        self.folder = folder
        self.clock = LoopClock()
        self.linux = pod_linux() if carrier is Carrier.ANCHORED else None
        """Of pods that a test does not say it of."""
        self.carrier = carrier
        root = folder / "engine"
        facts = default_facts(str(root))
        if carrier is Carrier.ANCHORED:
            facts = replace(facts, twins={"runc": str(folder / "front")})
            folder.mkdir(parents=True, exist_ok=True)
            conf_path(folder / "front").write_text(TwinConf("/usr/bin/runc", str(folder / "front.sock")).text())
        self.engine = SimulatedEngine(clock=self.clock, root=root, facts=facts)
        self.store = MemoryStore()
        self.network = FakePodNetwork(clock=self.clock)
        self.namespaces = SimulatedNamespaces()
        self.views = SimulatedViews(has=self._has_path)
        self.server: Server
        self._wrap = wrap

    def _has_path(self, image_id: str, path: str) -> bool:
        files = self.engine.image_files.get(image_id, {})
        return any(f"{file}/".startswith(f"/{path}/") for file in files)

    def lives(self, container_id: str, pid: int) -> bool:
        """Whether a process is one of a container."""
        return any((c.id, c.pid) == (container_id, pid) for c in self.engine.containers)

    @property
    def node(self) -> Node:
        return self.server.node

    @property
    def rt(self) -> Runtime:
        return self.node.runtime

    # --- the server's life

    async def start(self, *, connected: bool = True, **settings: Any) -> None:
        """Start a server; its sandbox image is loaded, so that pods of a test are all alike."""
        self.server = Server(self, self._wrap, **settings)
        await self.server.start()
        if connected:
            assert await self.rt.link.wait_connected(60), self.rt.link.error
            await self.rt.images.ensure_sandbox_image()
            await self.quiet()

    async def close(self) -> None:
        await self.node.close()
        shutil.rmtree(self.folder / "engine", ignore_errors=True)  # the anchor outlives servers

    async def restart(self, *, kill: bool = False, **settings: Any) -> None:
        """End the server and start another one on what there is."""
        await (self.server.kill() if kill else self.node.close())
        await self.start(**settings)

    async def quiet(self) -> None:
        """Return when nothing is going on any more."""
        await idle()
        while len(self.rt.background):
            assert await self.rt.background.drain(300) == []
            await idle()

    def background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a call that the test goes on beside; its error is for those who await it."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    # --- verbs, with what a test does not care about filled in

    async def run(self, *, name: str = "web", attempt: int = 0, handler: str = "", **config: Any) -> str:
        pod = PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="default", attempt=attempt)
        given = {
            "metadata": pod,
            "hostname": name,
            "dns_config": DNS,
            "log_directory": str(self.folder / "logs" / name),
            "linux": self.linux,
        }
        return await run_pod_sandbox(self.rt, PodSandboxConfig(**cast(Any, given | config)), handler)

    async def create(self, sandbox_id: str, *, name: str = "main", attempt: int = 0, **config: Any) -> str:
        given = {
            "metadata": ContainerMetadata(name=name, attempt=attempt),
            "image": ImageSpec(image="busybox"),
            "command": ("serve",),
            "log_path": f"{name}-{attempt}.log",
        }
        return await create_container(self.rt, sandbox_id, ContainerConfig(**cast(Any, given | config)), None)

    async def run_container(self, sandbox_id: str, **config: Any) -> str:
        container_id = await self.create(sandbox_id, **config)
        await self.start_container(container_id)
        return container_id

    async def start_container(self, container_id: str) -> None:
        await start_container(self.rt, container_id)

    async def stop_container(self, container_id: str, timeout: int = 0) -> None:
        await stop_container(self.rt, container_id, timeout)

    async def reopen_log(self, container_id: str) -> None:
        await reopen_container_log(self.rt, container_id)

    async def remove_container(self, container_id: str) -> None:
        await remove_container(self.rt, container_id)

    async def update_container(self, container_id: str, **resources: Any) -> None:
        await update_container_resources(self.rt, container_id, LinuxContainerResources(**resources))

    async def stop(self, sandbox_id: str) -> None:
        await stop_pod_sandbox(self.rt, sandbox_id)

    async def remove(self, sandbox_id: str) -> None:
        await remove_pod_sandbox(self.rt, sandbox_id)

    async def update_pod(self, sandbox_id: str, **resources: Any) -> None:
        await update_pod_sandbox_resources(self.rt, sandbox_id, None, LinuxContainerResources(**resources))

    async def exec_sync(self, container_id: str, *command: str, timeout: int = 0) -> tuple[bytes, int]:
        """Output and exit code."""
        result = await exec_sync(self.rt, container_id, command, timeout)
        return bytes(result.stdout), result.exit_code

    async def exec(self, container_id: str, *command: str, **streams: bool) -> ProcessStreams:
        """The streams of an exec that was started."""
        return await prepare_exec(self.rt, container_id, command, _wanted(streams)).start(None)

    async def attach(self, container_id: str, **streams: bool) -> ProcessStreams:
        """The streams of a container."""
        return await prepare_attach(self.rt, container_id, _wanted(streams)).start(None)

    # --- what is there

    def state(self, object_id: str) -> str:
        """State of a sandbox or container as it is listed, `gone` if it is not."""
        found = self.rt.index.sandbox(object_id) or self.rt.index.container(object_id)
        return found.state.name.partition("_")[2] if found else "gone"

    def states(self) -> dict[str, str]:
        index = self.rt.index
        ids = [s.id for s in index.sandboxes()] + [c.id for c in index.containers()]
        return {object_id: self.state(object_id) for object_id in ids}

    @property
    def objects(self) -> dict[str, EngineContainer]:
        """What the engine has of pods, by the ids that CRI knows; the anchor is none of it."""
        containers = [c for c in self.engine.containers if labels.ANCHOR not in c.labels]
        found = {labels.anchored_id(c.labels) or c.id: c for c in containers}
        assert len(found) == len(containers), "two objects of one sandbox"
        return found

    def in_engine(self, object_id: str) -> EngineContainer | None:
        return self.objects.get(object_id)

    async def until(self, condition: Callable[[], bool], limit: float = 60.0) -> None:
        """Return once the condition holds; fails after `limit` virtual seconds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + limit
        while not condition():
            assert loop.time() < end, f"not within {limit} s"
            await asyncio.sleep(0.001)

    # --- what must hold

    async def check_consistent(self) -> None:
        """Nothing goes on or is held; what is listed is what a server started now would list, and owns all there is."""
        await self.quiet()
        rt = self.rt
        assert await rt.link.wait_connected(10)
        assert (len(rt.background), len(rt.locks), len(rt.names), rt.running) == (0, 0, 0, {})
        await self.node.compare()
        assert rt.records.unsaved == ()
        listed = self.states()
        sandboxes = {s.id for s in rt.index.sandboxes()}
        held = {c.labels[VIEWED_IMAGE]: c.id for c in self.engine.containers if c.labels.get(TYPE) == IMAGE_VIEW}
        assert self.objects.keys() <= listed.keys() | set(held.values())
        assert self.views.held.keys() <= held.keys()
        assert held.keys() <= {image for c in rt.index.containers() for image in c.record.mounted_images}
        # What is READY has an object, and what has one of an anchored pod knows which.
        assert {s.id for s in rt.index.sandboxes() if s.ready} <= self.objects.keys()
        assert self.namespaces.held.keys() <= sandboxes
        assert self.network.held.keys() <= sandboxes
        assert self.network.violations == []
        assert self.engine.execs == 0
        async with self._fresh() as fresh:
            assert fresh.states() == listed
            index = fresh.rt.index
            assert {s.id: s.record for s in index.sandboxes()} == {s.id: s.record for s in rt.index.sandboxes()}
            assert {c.id: c.record for c in index.containers()} == {c.id: c.record for c in rt.index.containers()}

    @asynccontextmanager
    async def _fresh(self) -> AsyncIterator[World]:
        """The same world with another server in it, inside the block."""
        other = object.__new__(World)
        other.__dict__.update(self.__dict__)
        other.server = Server(other, lambda _, target: target)
        await other.server.start()
        assert await other.rt.link.wait_connected(60)
        yield other
        await other.node.close()

    async def check_removable(self) -> None:
        """All that is listed can be stopped and removed, and then nothing is left anywhere."""
        await self.quiet()
        for sandbox in tuple(self.rt.index.sandboxes()):
            await self.stop(sandbox.id)
            assert not [c for c in self.rt.index.containers_of(sandbox.id) if c.running]
            assert sandbox.id not in self.network.held
            await self.remove(sandbox.id)
        await self.check_nothing_left()

    async def check_nothing_left(self) -> None:
        await self.quiet()
        await self.node.compare()
        assert self.states() == {}
        assert self.objects == {}
        assert self.views.held == {}
        assert self.namespaces.made == {}
        assert (await self.store.load()).records == ()
        assert self.namespaces.held == {}
        assert self.network.held == {}
        assert self.network.violations == []
        assert self.network.adds.keys() <= self.network.dels.keys()
        logs = self.folder / "logs"
        assert [path for path in logs.rglob("*") if path.is_symlink()] == []
        assert [*(self.folder / "spools").glob("*")] == []
        rt = self.rt
        assert (len(rt.background), len(rt.locks), len(rt.names), rt.running) == (0, 0, 0, {})


def _wanted(streams: dict[str, bool]) -> WantedStreams:
    return WantedStreams(**({"tty": False, "stdin": True, "stdout": True, "stderr": False} | streams))
