"""The streaming server: listens, checks who comes, and gives each client with a good token its session.

client ── TLS ── request's head ── token, protocol ── 101 ── session ── end
         └──────── strangers: 10 s, and not many ────────┘
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crishim.aiokit.background import Background
from crishim.streaming.api import SessionURLs
from crishim.streaming.connection import Connection
from crishim.streaming.errors import Refused
from crishim.streaming.jobs import ForwardJob, Job, ProcessJob, Session
from crishim.streaming.tls import RotatingTLS, TLSFiles
from crishim.streaming.tokens import Tokens

if TYPE_CHECKING:
    from crishim.model.streams import PreparedForward, PreparedProcess
    from crishim.streaming.admission import Admission

logger = logging.getLogger(__name__)

HEAD_SECONDS = 10.0
"""From a connection's beginning to the end of its request's head."""
MOST_STRANGERS = 256
"""Connections that have not shown a token yet. One more, and the oldest goes."""
_BACKLOG = 1024
_ACCEPT_PAUSE = 0.5
"""Seconds to wait when the process has no descriptor left for a client."""
_STOP_LIMIT = 10.0
_GOODBYE = 3.0
_WATCH_EVERY = 5.0
_PROBES = 3


class CannotListen(Exception):  # noqa: N818 - a line for people
    """The streaming server cannot start with these settings."""


@dataclass(frozen=True)
class StreamingSettings:
    """How the streaming server listens, and how long it bears with clients."""

    address: str = "127.0.0.1:0"
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    insecure: bool = False
    idle_limit: float = 4 * 3600.0
    """Seconds without a byte from or to a client; 0 is no limit."""
    dead_after: float = 60.0
    """Seconds in which a client's machine does not answer; 0 leaves it to the kernel's own limits."""


class StreamingServer(SessionURLs):
    """Made, started, stopped once each."""

    def __init__(self, settings: StreamingSettings) -> None:
        """Raises CannotListen when the settings are contradictory, unsafe, or name files that cannot be used."""
        self._settings = settings
        host, _, port = settings.address.rpartition(":")
        self._host, self._port = ipaddress.ip_address(host.strip("[]")), int(port)
        self._tls = _tls(settings)
        if not self._host.is_loopback and self._tls is None and not settings.insecure:
            raise CannotListen(
                f"{settings.address} can be reached from other machines: give a certificate and its key "
                "(--streaming-certificate, --streaming-key), or say --streaming-insecure true"
            )
        self._tokens: Tokens[Job] = Tokens(time.monotonic)
        self._tasks = Background()
        self._work = Background()
        self._strangers: dict[asyncio.Task[None], None] = {}
        self._sessions: set[asyncio.Task[None]] = set()
        self._connections: set[Connection] = set()
        self._loading: asyncio.Task[type[Admission]] | None = None
        self._listener: socket.socket | None = None

    def __repr__(self) -> str:
        return (
            f"<StreamingServer {len(self._sessions)} sessions, {len(self._connections)} connections, "
            f"{len(self._tokens)} pending, {self._work!r}>"
        )

    @property
    def url(self) -> str:
        """Where it listens, as clients are told."""
        assert self._listener is not None, "not started"
        scheme = "http" if self._tls is None else "https"
        host = f"[{self._host}]" if self._host.version == 6 else str(self._host)
        return f"{scheme}://{host}:{self._listener.getsockname()[1]}"

    @property
    def idle(self) -> bool:
        """Whether no client is connected, and nothing of those that were is left."""
        return not (self._connections or self._sessions or self._strangers or len(self._work))

    # --- URLs ---------------------------------------------------------------------------------------------------

    def exec(self, process: PreparedProcess) -> str:
        return self._issue(ProcessJob("exec", process, tells_exit_code=True))

    def attach(self, process: PreparedProcess) -> str:
        return self._issue(ProcessJob("attach", process, tells_exit_code=False))

    def port_forward(self, forward: PreparedForward) -> str:
        return self._issue(ForwardJob(forward))

    def _issue(self, job: Job) -> str:
        url = f"{self.url}/{job.verb}/{self._tokens.issue(job)}"
        self._load()
        return url

    # --- life ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen. Raises CannotListen."""
        family = socket.AF_INET6 if self._host.version == 6 else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((str(self._host), self._port))
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            raise CannotListen(f"cannot listen on {self._settings.address}: {error.strerror}") from error
        self._listener = listener
        self._tasks.start(self._accept(listener), name="accepting streaming clients")
        self._tasks.start(self._watch(), name="watching streaming clients")

    async def stop(self) -> None:
        """Take no more clients, end all sessions and let everything go."""
        if self._listener is None:
            return
        self._tokens.clear()
        await self._tasks.drain(0)
        self._listener.close()
        for task in (*self._strangers, *self._sessions):
            task.cancel()
        if late := await self._work.drain(_STOP_LIMIT):
            logger.warning("the streaming server did not end in time: %s", ", ".join(late))
        await self._part()

    async def _part(self) -> None:
        """What was said last goes out to those who read it."""
        waits = [asyncio.create_task(connection.end(_GOODBYE), name="goodbye") for connection in self._connections]
        if waits:
            await asyncio.wait(waits)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as error:
                logger.warning("cannot take a streaming client: %s", error)
                await asyncio.sleep(_ACCEPT_PAUSE)
                continue
            task = self._work.start(self._serve(client), name="streaming client")
            self._strangers[task] = None
            task.add_done_callback(self._forget)
            if len(self._strangers) > MOST_STRANGERS:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                oldest.cancel()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._strangers.pop(task, None)
        self._sessions.discard(task)

    # --- one client ---------------------------------------------------------------------------------------------

    async def _serve(self, client: socket.socket) -> None:
        task = asyncio.current_task()
        assert task is not None
        admitted = await self._meet(client)
        if admitted is None:
            return
        connection, job, session = admitted
        self._strangers.pop(task, None)
        self._sessions.add(task)
        began = time.monotonic()
        try:
            outcome = await session
        except Exception:
            connection.abort()
            raise
        logger.info("%s of %s ended after %.1f s: %s", job.verb, job.noun, time.monotonic() - began, outcome)

    async def _meet(self, client: socket.socket) -> tuple[Connection, Job, Session] | None:
        """A stranger's request up to its answer; None: that was not what it wanted, and the connection is over."""
        connection: Connection | None = None
        try:
            admission = await self._admission()
            try:
                async with asyncio.timeout(HEAD_SECONDS):
                    connection = await self._connect(client)
                    upgrade = await admission.read_head(connection)
                job = self._tokens.look_up(upgrade.token)
                if job is None or job.verb != upgrade.verb:
                    raise Refused(404, "there is no such session: its URL was used, has lapsed, or never was")
                session = admission.accept(job, upgrade, connection, self._work)
                self._tokens.use(upgrade.token)
                return connection, job, session
            except TimeoutError:
                if connection is None:
                    return None
                raise Refused(408, "the request's head did not come in time") from None
        except Refused as refused:
            assert connection is not None
            logger.info("streaming client refused: %d %s", refused.status, refused.reason)
            await admission.refuse(refused, connection, _GOODBYE)
        except OSError as error:  # of which those of TLS are
            logger.debug("streaming client went away before its request was read: %s", error)
        except BaseException:
            if connection is not None:
                connection.abort()
            raise
        finally:
            if connection is None:
                client.close()
        return None

    async def _admission(self) -> type[Admission]:
        self._load()
        assert self._loading is not None
        return await asyncio.shield(self._loading)

    def _load(self) -> None:
        """Beside the loop, and not before the first URL is given out: many servers never need it."""
        if self._loading is None:
            self._loading = self._work.start(asyncio.to_thread(_load_admission), name="loading protocols")

    async def _connect(self, client: socket.socket) -> Connection:
        dead_after = self._settings.dead_after
        if dead_after:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            apart = max(1, round(dead_after / (_PROBES + 1)))
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
                client.setsockopt(socket.IPPROTO_TCP, option, apart)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
        context = None if self._tls is None else await self._tls.context()
        _, connection = await asyncio.get_running_loop().connect_accepted_socket(
            lambda: Connection(self._connections.discard),
            client,
            ssl=context,
            ssl_handshake_timeout=HEAD_SECONDS if context else None,
        )
        if not connection.lost.is_set():
            self._connections.add(connection)
        return connection

    async def _watch(self) -> None:
        """Ends clients that moved nothing for too long, or whose machine is dead; tells others that we are alive."""
        idle, dead = self._settings.idle_limit, self._settings.dead_after
        every = min([_WATCH_EVERY, *(limit / 4 for limit in (idle, dead) if limit)])
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(every)
            now = loop.time()
            for connection in tuple(self._connections):
                if idle and now - connection.active > idle:
                    logger.info("a streaming client moved nothing for %g s and is dropped", idle)
                    connection.abort()
                elif dead and connection.looks_dead(every):
                    connection.suspected = connection.suspected or now
                    if now - connection.suspected >= dead - every:
                        logger.info("a streaming client does not answer any more and is dropped")
                        connection.abort()
                else:
                    connection.suspected = 0.0
                    connection.beat()


def _tls(settings: StreamingSettings) -> RotatingTLS | None:
    if settings.certificate is None or settings.key is None:
        if settings.certificate or settings.key or settings.client_ca:
            raise CannotListen("TLS for streaming needs a certificate and its key")
        return None
    try:
        return RotatingTLS(TLSFiles(settings.certificate, settings.key, settings.client_ca))
    except OSError as error:
        raise CannotListen(f"the TLS files for streaming cannot be used: {error}") from error


def _load_admission() -> type[Admission]:
    from crishim.streaming.admission import Admission

    return Admission
