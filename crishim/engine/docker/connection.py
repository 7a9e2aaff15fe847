"""The way to the engine: one HTTP session over a unix socket, without limit of connections, closed as a whole.

aiodocker does the plain calls on this session. What it lacks, or does not close (docs/decisions/engine-http-client.md),
is asked of the same session here, in `stream`.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import socket
import struct
import weakref
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiodocker
import aiohttp
from aiodocker.exceptions import DockerError

from crishim.engine.docker.errors import refusal
from crishim.engine.docker.hijack import Hijacked
from crishim.engine.docker.upgrade import upgrade_request
from crishim.errors import EngineUnavailable, EngineUnsuitable

if TYPE_CHECKING:
    from pydantic import TypeAdapter

log = logging.getLogger(__name__)

_BASE = "http://engine"
"""Any name will do: the connector knows the socket."""
_CONNECT_LIMIT = 5.0
_SCHEME = "unix://"


class Connection:
    """A session with the engine at `endpoint` (`unix:///path`).

    Raises EngineUnsuitable if the endpoint is of another kind: an engine elsewhere has its containers elsewhere.
    Opened at the first use, inside the running loop; closed by `close`, for good.
    """

    def __init__(self, endpoint: str) -> None:
        path = endpoint.removeprefix(_SCHEME)
        if not endpoint.startswith(_SCHEME) or not path.startswith("/"):
            raise EngineUnsuitable(
                f"engine endpoint {endpoint!r}: only unix:///path is served, "
                "because a pod needs an engine whose processes and files are on this machine"
            )
        self.path = path
        self._session: aiohttp.ClientSession | None = None
        self._docker: aiodocker.Docker | None = None
        self._closed = False
        self._responses: weakref.WeakSet[aiohttp.ClientResponse] = weakref.WeakSet()
        self._hijacked: weakref.WeakSet[Hijacked] = weakref.WeakSet()
        self._finishing: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "negotiated" if self._docker else "new"
        return f"Connection({self.path!r}, {state})"

    def speak(self, api_version: tuple[int, int]) -> None:
        """Use this version of the API from now on."""
        version = f"v{api_version[0]}.{api_version[1]}"
        session = self._open()
        self._docker = aiodocker.Docker(_BASE, connector=session.connector, session=session, api_version=version)

    @property
    def docker(self) -> aiodocker.Docker:
        """The client for plain calls. EngineUnavailable before the first handshake and after `close`."""
        if self._closed:
            raise EngineUnavailable("the connection to the engine is closed")
        if self._docker is None:
            raise EngineUnavailable("the engine has not been reached yet")
        return self._docker

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        data: object = None,
        headers: Mapping[str, str] | None = None,
        versioned: bool = True,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer to be read as it comes; leaving the context closes its connection, read to the end or not.

        A status from 400 on is raised as DockerError, as aiodocker does; call it inside `errors.guard`.
        """
        prefix = f"/{self.docker.api_version}" if versioned else ""
        async with self._open().request(
            method, f"{_BASE}{prefix}/{path}", params=params, data=data, headers=headers
        ) as response:
            try:
                if response.status >= 400:
                    raise DockerError(response.status, _message(await response.read()))
                yield response
            finally:
                _break_off(response)

    async def get(self, path: str, *, versioned: bool = False) -> dict[str, Any]:
        """The JSON object at a path, without version unless said so; call it inside `errors.guard`."""
        async with self.stream("GET", path, versioned=versioned) as response:
            return _object(await response.read())

    async def hijack(self, what: str, path: str, body: Mapping[str, Any], *, tty: bool, **ids: str) -> Hijacked:
        """Post a JSON object and take over the connection, whose streams come in frames unless there is a `tty`.

        Cancelled, the connection is closed, but the request may have been read. Raises EngineUnavailable and the
        refusals of `errors.refusal`; call it inside `errors.guard`. `what` is for messages.
        """
        prefix = f"/{self.docker.api_version}"
        _, stream = await asyncio.wait_for(
            asyncio.get_running_loop().create_unix_connection(lambda: Hijacked(what, tty=tty), self.path),
            _CONNECT_LIMIT,
        )
        self._hijacked.add(stream)
        try:
            stream.send(upgrade_request(f"{prefix}/{path}", json.dumps(body).encode()))
            await stream.answered
            if not stream.answer.upgraded:
                raise refusal(stream.answer.status, stream.answer.message, **ids)
        except BaseException:
            stream.abort()
            raise
        return stream

    async def post(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Post a JSON object and return the one in the answer; call it inside `errors.guard`.

        What the engine warns of in it (a limit that the kernel does not have) is logged.
        """
        headers = {"Content-Type": "application/json"}
        data = _json(body)
        async with self.stream("POST", path, params=params, data=data, headers=headers) as response:
            answer = _object(await response.read())
        for warning in answer.get("Warnings") or ():
            log.info("engine: %s: %s", path, warning)
        return answer

    async def tell(self, path: str, params: Mapping[str, str]) -> None:
        """Post without body, for an answer without one; call it inside `errors.guard`."""
        async with self.stream("POST", path, params=params) as response:
            await response.read()

    async def peer_pid(self) -> int:
        """Process that opened the socket for listening, 0 if it is in no PID namespace that we see. OSError."""
        _, writer = await asyncio.wait_for(asyncio.open_unix_connection(self.path), _CONNECT_LIMIT)
        try:
            credentials = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        finally:
            writer.close()
        pid: int = struct.unpack("3i", credentials)[0]
        return pid

    def finish(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """Run what lets go of something in the engine, to its end even if the caller is cancelled. It has a limit."""
        task = asyncio.create_task(work, name=name)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)
        return task

    async def close(self) -> None:
        """Close every connection; calls under way end with EngineUnavailable. May be called twice."""
        if self._finishing:
            await asyncio.wait(self._finishing)
        self._closed = True
        for response in tuple(self._responses):
            _break_off(response)
        for stream in tuple(self._hijacked):
            stream.abort(EngineUnavailable("the connection to the engine is closed"))
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise EngineUnavailable("the connection to the engine is closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # 0: no limit. Each wait and each stream holds a connection; with the usual 100 all calls would queue
                # behind them.
                connector=aiohttp.UnixConnector(self.path, limit=0),
                # Limits belong to the kind of call and are set by errors.guard; a stream may be silent for days.
                timeout=aiohttp.ClientTimeout(total=None, sock_read=None, sock_connect=_CONNECT_LIMIT),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "crishim"},
                trace_configs=[self._trace()],
            )
        return self._session

    def _trace(self) -> aiohttp.TraceConfig:
        """Remembers each answer as long as someone reads it, so that `close` can end it."""
        trace = aiohttp.TraceConfig()

        async def remember(_: object, __: object, params: aiohttp.TraceRequestEndParams) -> None:
            self._responses.add(params.response)

        trace.on_request_end.append(remember)
        return trace


def _break_off(response: aiohttp.ClientResponse) -> None:
    """Close an answer's connection, unless it was read to its end, and wake whoever reads it.

    Closing alone does not wake a reader: the client forgets the body before the connection is gone.
    """
    if not response.content.is_eof():
        response.content.set_exception(aiohttp.ClientConnectionError("closed here"))
        response.close()


@functools.cache
def _any() -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(Any)


def _json(body: Mapping[str, Any]) -> bytes:
    """An object as JSON, in a third of the time that `json` takes: a container with mounts and a seccomp profile has
    hundreds of kilobytes."""
    try:
        return _any().dump_json(body)
    except (
        ValueError
    ):  # a surrogate, of a path on the node that is not UTF-8; the engine says that there is no such path
        return json.dumps(body).encode()


def _object(body: bytes) -> dict[str, Any]:
    value = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError(f"no JSON object: {body[:100]!r}")
    return value


def _message(body: bytes) -> str:
    """The text of an error answer: `{"message": ...}`, or whatever it is."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")
