"""The HTTP server of telemetry: small, one request per connection, and bounded in everything that a client can do.

A client has `SECONDS` for its request and as long to take the answer; its head may have `HEAD_LIMIT` bytes; of more
than `MOST_CLIENTS` at once the oldest goes.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from typing import TYPE_CHECKING

import h11

from crishim import __version__
from crishim.telemetry.page import Page, refusal

if TYPE_CHECKING:
    from crishim.telemetry.pages import Pages

log = logging.getLogger(__name__)

SECONDS = 10.0
HEAD_LIMIT = 16 << 10
MOST_CLIENTS = 32
_LINGER = 2.0
"""Seconds for a client to close its side once it has the answer."""
_BACKLOG = 64
_CHUNK = 4096


class CannotServe(Exception):  # noqa: N818 - a line for people
    """Metrics cannot be served with these settings."""


class TelemetryServer:
    """Made, started, stopped once each."""

    def __init__(self, address: str, *, insecure: bool = False) -> None:
        """`address`: `127.0.0.1:9477`, `[::1]:0`; port 0 takes a free one. `insecure`: it may be beyond loopback.

        Raises CannotServe.
        """
        host, _, port = address.rpartition(":")
        self._address = address
        self._host, self._port = ipaddress.ip_address(host.strip("[]")), int(port)
        if not self._host.is_loopback and not insecure:
            raise CannotServe(
                f"--metrics-address {address} can be reached from other machines, and everyone there could read it: "
                "choose a loopback address, or say --metrics-insecure true"
            )
        self._pages: Pages | None = None
        self._server: asyncio.Server | None = None
        self._clients: dict[asyncio.Task[None], None] = {}

    def __repr__(self) -> str:
        return f"<TelemetryServer {self._address}, {len(self._clients)} clients>"

    @property
    def url(self) -> str:
        """Where it listens."""
        assert self._server is not None, "not started"
        host = f"[{self._host}]" if self._host.version == 6 else str(self._host)
        return f"http://{host}:{self._server.sockets[0].getsockname()[1]}"

    async def start(self, pages: Pages) -> None:
        """Listen and serve. Raises CannotServe."""
        self._pages = pages
        family = socket.AF_INET6 if self._host.version == 6 else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((str(self._host), self._port))
            self._server = await asyncio.start_server(self._serve, sock=listener, limit=HEAD_LIMIT, backlog=_BACKLOG)
        except OSError as error:
            listener.close()
            raise CannotServe(f"cannot serve metrics on {self._address}: {error.strerror}") from error
        log.info("metrics at %s/metrics", self.url)

    async def stop(self) -> None:
        """Take no more clients and end those that are there."""
        if self._server is None:
            return
        self._server.close()
        clients = tuple(self._clients)
        for client in clients:
            client.cancel()
        if clients:
            await asyncio.wait(clients)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients[task] = None
        if len(self._clients) > MOST_CLIENTS:
            oldest = next(iter(self._clients))
            del self._clients[oldest]
            oldest.cancel()
        try:
            await self._answer(reader, writer)
        except asyncio.CancelledError:
            pass  # by us: it was the oldest, or the server stops; nobody waits for the task's outcome
        except (OSError, TimeoutError) as error:
            log.debug("a client of metrics went away, or was too slow: %r", error)
        finally:
            self._clients.pop(task, None)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
        method = b""
        try:
            async with asyncio.timeout(SECONDS):
                request = await _read_head(http, reader)
            if request is None:
                return
            method = request.method
            page = await self._page_for(request)
        except h11.RemoteProtocolError as error:
            page = refusal(error.error_status_hint, str(error))
        except TimeoutError:
            page = refusal(408, "the request did not come in time")
        async with asyncio.timeout(SECONDS):
            await _send(http, writer, page, body=method != b"HEAD")
        # Closed with something unread, the kernel would take the answer back.
        async with asyncio.timeout(_LINGER):
            while await reader.read(_CHUNK):
                pass

    async def _page_for(self, request: h11.Request) -> Page:
        assert self._pages is not None, "not started"
        if request.method not in (b"GET", b"HEAD"):
            return refusal(405, "there is only something to GET")
        accept = ",".join(value.decode("latin-1") for name, value in request.headers if name == b"accept")
        path = request.target.partition(b"?")[0].decode("latin-1")
        return await self._pages.get(path, accept)


async def _read_head(http: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    """The request; None from a client that left before it had said one. A body is not read.

    Raises h11.RemoteProtocolError.
    """
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(_CHUNK))
        elif isinstance(event, h11.Request):
            return event
        else:
            return None


async def _send(http: h11.Connection, writer: asyncio.StreamWriter, page: Page, *, body: bool) -> None:
    """Send an answer, to its end, and say that nothing follows. `body`: False for what was asked by HEAD."""
    headers = [
        ("Content-Type", page.content_type),
        ("Content-Length", str(len(page.body))),
        ("Server", f"crishim/{__version__}"),
        ("Connection", "close"),
    ]
    if page.status == 405:
        headers.append(("Allow", "GET, HEAD"))
    events: list[h11.Event] = [h11.Response(status_code=page.status, headers=headers)]
    if body:
        events.append(h11.Data(data=page.body))
    events.append(h11.EndOfMessage())
    writer.transport.set_write_buffer_limits(0)  # so that drained means sent
    writer.write(b"".join(http.send(event) or b"" for event in events))
    await writer.drain()
    writer.write_eof()
