"""The composition root: the only module that names concrete backends, and the order in which all starts and ends.

    socket held -> backends -> node (store, records, namespaces, network) -> streaming -> gRPC -> engine -> READY
    SIGTERM     -> no new calls, those under way end within the limit, undoing ends, everything closes, socket gone

The engine need not be there: the server serves, says so in Status, and connects when it can.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from crishim import __version__, allocator, log
from crishim.config import Settings
from crishim.errors import CRIError, InvalidArgument, Unimplemented
from crishim.front.desk import Desk
from crishim.images.core import ImageSettings
from crishim.images.views import OverlayViews
from crishim.lock_file import EngineClaim
from crishim.rpc.health import Health
from crishim.rpc.served import Served, serve_from
from crishim.rpc.server import Server
from crishim.rpc.unix_socket import PATH_LIMIT, ServerSocket
from crishim.runtime.core import RuntimeSettings
from crishim.runtime.front import Front
from crishim.runtime.node import Node
from crishim.runtime.wishes import edit_of
from crishim.service.notify import Notifier
from crishim.stats.oom import OutOfMemory
from crishim.stats.service import Stats
from crishim.streaming.server import CannotListen, StreamingServer, StreamingSettings
from crishim.timeline import Timeline

if TYPE_CHECKING:
    from crishim.engine.api import Engine
    from crishim.network.api import PodNetwork
    from crishim.network.namespaces import NetworkNamespaces
    from crishim.telemetry.port import Telemetry

logger = logging.getLogger(__name__)

_THREADS = 32
"""Threads for what blocks, made as they are needed."""
ENGINE_PATIENCE = 0.2
"""Seconds to wait for the engine before READY is told; the server answers meanwhile, and without it, too."""
CLOSE_LIMIT = 10.0
"""Seconds for undoing and closing after the calls have ended or were cancelled."""


class StartFailed(Exception):  # noqa: N818 - one line for people: why the server could not start
    """The server cannot serve with this configuration on this machine as it is."""


def run(settings: Settings, began: float) -> None:
    """Serve until SIGTERM or SIGINT. `began`: when the process did, on the monotonic clock.

    Raises Taken and StartFailed.
    """
    log.set_up(settings.log_level, settings.log_format)
    allocator.give_back_large_blocks()
    with ExitStack() as stack:
        try:
            socket = stack.enter_context(ServerSocket(settings.socket_path))
            if not settings.engine_is_simulated:
                stack.enter_context(EngineClaim(settings.engine_socket))
            sinks = [stack.enter_context(Timeline(settings.timeline))] if settings.timeline else []
        except OSError as error:
            raise StartFailed(f"cannot use {error.filename or settings.socket_path}: {error.strerror}") from error
        asyncio.run(_serve(settings, socket, sinks, began))


async def _serve(settings: Settings, socket: ServerSocket, sinks: list[Timeline], began: float) -> None:
    # Threads wait for mounts and plugins' files, and a few that are stuck there must not keep the others from working.
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="crishim")
    asyncio.get_running_loop().set_default_executor(threads)
    notifier = Notifier(os.environ)
    stop = _StopRequests()
    telemetry = make_telemetry(settings)
    node = make_node(settings, telemetry)
    streaming = make_streaming(settings)
    desk: Desk | None = None
    try:
        try:
            await node.start()
            desk = await open_desk(settings, node)  # not before the records are read: who asks earlier is to fail
            await streaming.start()
        except (CRIError, OSError, CannotListen) as error:
            raise StartFailed(f"cannot start: {error}") from error
        served = serve_from(
            node.runtime,
            streaming,
            stats=Stats(node.runtime, layer_budget=settings.layer_budget),
            event_backlog=settings.event_backlog,
        )
        memory = OutOfMemory(node.runtime.index, node.runtime.background)
        node.runtime.watch.out_of_memory = memory.happened
        health = Health(node.runtime.link)
        server = Server(served, sinks=[*sinks, *([telemetry.counted.calls] if telemetry else [])], health=health)
        try:
            if telemetry is not None:
                await _start_telemetry(telemetry, served, server, threads, stop)
            await server.start(socket)
        except (OSError, RuntimeError) as error:  # gRPC's word for a socket that it cannot bind
            raise StartFailed(f"cannot listen on {settings.listen}: {error}") from error
        try:
            await node.runtime.link.wait_connected(ENGINE_PATIENCE)
            told = _describe(settings, node)
            logger.info("READY in %.2f s: %s", time.monotonic() - began, told)
            notifier.ready(told)
            _settle()
            await stop.first.wait()
        finally:
            notifier.stopping()
            logger.info("stopping: calls under way have %g s", settings.drain_limit)
            health.stop()
            served.end_streams()
            await stop_serving(server, settings.drain_limit, stop.second)
            await served.close()
            memory.close()
    finally:
        await streaming.stop()
        await node.close(CLOSE_LIMIT)
        if desk is not None:
            await desk.stop()  # undoing may still start something
        if telemetry is not None:
            await telemetry.stop()
    logger.info("stopped")


def _settle() -> None:
    """What was loaded stays for good: without this, each full collection walks it, in the middle of somebody's call."""
    gc.collect()
    gc.freeze()


def make_telemetry(settings: Settings) -> Telemetry | None:
    """What the server tells of itself; None, and nothing is loaded for it, where no port was asked for."""
    if not settings.metrics_address:
        return None
    from crishim.telemetry.port import Telemetry
    from crishim.telemetry.server import CannotServe

    try:
        return Telemetry(settings.metrics_address, insecure=settings.metrics_insecure)
    except CannotServe as error:
        raise StartFailed(str(error)) from error


async def _start_telemetry(
    telemetry: Telemetry, served: Served, server: Server, threads: ThreadPoolExecutor, stop: _StopRequests
) -> None:
    from crishim.telemetry.server import CannotServe
    from crishim.telemetry.sources import Sources

    sources = Sources(
        version=__version__,
        counted=telemetry.counted,
        runtime=served.runtime,
        events=served.events,
        under_way=server.under_way,
        threads=threads._work_queue.qsize,  # the library tells it nowhere else
        stopping=stop.first.is_set,
    )
    try:
        await telemetry.start(sources)
    except CannotServe as error:
        raise StartFailed(str(error)) from error


def make_node(settings: Settings, telemetry: Telemetry | None = None) -> Node:
    """The runtime with the backends that the settings name. Nothing is touched yet."""
    from crishim.checkpoint.errors import UnknownStore
    from crishim.checkpoint.registry import make_store
    from crishim.logs.process import LogWriterProcess

    try:
        store = make_store(settings.checkpoint, settings.state_dir)
    except UnknownStore as error:
        raise StartFailed(str(error)) from error
    engine, network, namespaces = (
        _simulated_backends(settings) if settings.engine_is_simulated else _real_backends(settings)
    )
    if telemetry is not None:
        engine, network = telemetry.engine(engine), telemetry.network(network)
    return Node(
        engine=engine,
        store=store,
        network=network,
        namespaces=namespaces,
        log_writer=LogWriterProcess(settings.run_dir / "logs.lock"),
        log_folder=settings.state_dir / "logs",
        views=None if settings.engine_is_simulated else OverlayViews(settings.run_dir / "images"),
        desk=None if settings.engine_is_simulated else settings.desk_path,
        settings=runtime_settings(settings),
        image_settings=image_settings(settings),
    )


async def open_desk(settings: Settings, node: Node) -> Desk | None:
    """Where fronts ask (`crishim install-runtime`); None where there cannot be any. Raises OSError."""
    if settings.engine_is_simulated:
        return None
    if len(os.fsencode(settings.desk_path)) > PATH_LIMIT:
        # Who never installed the front must not be kept from serving by it; whoever installs it is told.
        logger.warning(
            "no runtime front can ask at %s: a socket's path may have %d bytes", settings.desk_path, PATH_LIMIT
        )
        return None
    edit = partial(edit_of, folder=node.runtime.namespaces.folder)
    desk = Desk(settings.desk_path, Front(node.runtime.index, edit, node.runtime.background).answer)
    await desk.start()
    return desk


def make_streaming(settings: Settings) -> StreamingServer:
    """The server of exec, attach and port-forward; it does not listen yet."""
    try:
        return StreamingServer(streaming_settings(settings))
    except CannotListen as error:
        raise StartFailed(str(error)) from error


def streaming_settings(settings: Settings) -> StreamingSettings:
    """The part that the streaming server reads."""
    return StreamingSettings(
        address=settings.streaming_address,
        certificate=settings.streaming_certificate,
        key=settings.streaming_key,
        client_ca=settings.streaming_client_ca,
        insecure=settings.streaming_insecure,
        idle_limit=settings.streaming_idle_limit,
        dead_after=settings.streaming_dead_after,
    )


def runtime_settings(settings: Settings) -> RuntimeSettings:
    """The part that the verbs read."""
    return RuntimeSettings(
        undo_deadline=settings.undo_deadline,
        log_spool_size=settings.log_spool_size,
        log_spool_files=settings.log_spool_files,
        shm_size=settings.shm_size,
        pids_limit=settings.pids_limit,
        kill_wait=settings.kill_wait,
        carrier=settings.carrier,
    )


def image_settings(settings: Settings) -> ImageSettings:
    """The part that the image verbs read."""
    return ImageSettings(
        sandbox_image=settings.sandbox_image,
        sandbox_image_credentials=settings.sandbox_image_credentials,
        pull_stall_limit=settings.pull_stall_limit,
        pull_work_limit=settings.pull_work_limit,
    )


def _simulated_backends(settings: Settings) -> tuple[Engine, PodNetwork, NetworkNamespaces]:
    """An engine in memory. Its pods have no namespace that a network could be attached to."""
    from crishim.engine.simulated import SimulatedEngine
    from crishim.network.namespaces import SimulatedNamespaces
    from crishim.network.none import NoNetwork

    if settings.network not in ("auto", "none"):
        raise StartFailed(f"--network {settings.network} needs a real engine: the simulated one's pods have none")
    root = settings.run_dir / "simulated"
    shutil.rmtree(root, ignore_errors=True)  # files of an engine that ended with its process
    return SimulatedEngine(root=root), NoNetwork(), SimulatedNamespaces()


def make_engine(settings: Settings) -> Engine:
    """A Docker Engine, without a runtime: for commands beside the server."""
    from crishim.engine.docker import DockerEngine

    return DockerEngine(settings.engine)


def _real_backends(settings: Settings) -> tuple[Engine, PodNetwork, NetworkNamespaces]:
    """A Docker Engine, and the kernel's namespaces."""
    from crishim.engine.docker import DockerEngine
    from crishim.network.namespaces import KernelNamespaces
    from crishim.network.select import make_network

    try:
        network = make_network(
            settings.network,
            conf_dir=os.fspath(settings.cni_conf_dir),
            bin_dirs=[os.fspath(folder) for folder in settings.cni_bin_dir],
            state_dir=os.fspath(settings.state_dir),
            run_dir=os.fspath(settings.run_dir),
            pod_cidr=settings.pod_cidr,
        )
    except (Unimplemented, InvalidArgument) as error:
        raise StartFailed(f"cannot use --network {settings.network}: {error}") from error
    namespaces = KernelNamespaces(os.fspath(settings.netns_dir), os.fspath(settings.run_dir / "pods"))
    return DockerEngine(settings.engine), network, namespaces


class _StopRequests:
    """What SIGTERM, SIGINT and SIGHUP (a terminal that closes) ask for: the first to stop, a second to stop at once."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._take, number)

    def _take(self, number: signal.Signals) -> None:
        logger.info("received %s", number.name)
        (self.second if self.first.is_set() else self.first).set()


async def stop_serving(server: Server, limit: float, at_once: asyncio.Event) -> None:
    """Stop within `limit` seconds, or as soon as `at_once` is set; calls that are then under way are cancelled.

    What those calls undo may take `CLOSE_LIMIT` seconds more.
    """
    stopping = asyncio.create_task(server.stop(limit), name="stop serving")
    impatient = asyncio.create_task(at_once.wait(), name="second signal")
    await asyncio.wait((stopping, impatient), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
    waiting = {stopping}
    if impatient.done():
        waiting.add(asyncio.create_task(server.stop(0), name="stop serving at once"))
    impatient.cancel()
    _, late = await asyncio.wait(waiting, timeout=CLOSE_LIMIT)
    if late:
        logger.warning("calls are still undoing what they did; it is left for StopPodSandbox and RemovePodSandbox")


def _describe(settings: Settings, node: Node) -> str:
    link = node.runtime.link
    if link.error is None:
        facts = link.facts
        engine = f"engine {facts.name} {facts.version} (API {facts.api_version[0]}.{facts.api_version[1]})"
    else:
        engine = f"engine away ({link.error})"
    return (
        f"crishim {__version__}, {engine}, network {node.runtime.network.name}, checkpoints {settings.checkpoint}, "
        f"listening on {settings.listen}"
    )
