"""A plain HTTP client for the tests' own dealings with an engine: no docker CLI, no adapter under test."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class EngineApiError(Exception):
    """The engine answered with an error status: ``status`` and its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("engine", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class EngineApi:
    """Calls of the Docker Engine API, one connection each, in the engine's newest version or the path's (/v1.41/x)."""

    def __init__(self, socket_path: Path, timeout: float = 60.0) -> None:
        """``timeout``: seconds that a call may be silent."""
        self._path = socket_path
        self._timeout = timeout

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        json_body: object = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """One call; gives the decoded JSON, or the bytes when the answer is none.

        A stream of JSON messages (load, pull, push) is given as a list.  Raises EngineApiError on a status of 400 and
        above and on an ``error`` message within a stream, OSError when the engine cannot be reached.
        """
        sent = dict(headers or {})
        if json_body is not None:
            body = json.dumps(json_body).encode()
            sent["Content-Type"] = "application/json"
        elif body is not None:
            sent.setdefault("Content-Type", "application/x-tar")
        url = f"{path}?{urllib.parse.urlencode(query)}" if query else path
        connection = _UnixConnection(self._path, self._timeout)
        try:
            connection.request(method, url, body, sent)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise EngineApiError(answer.status, data.decode(errors="replace").strip())
        if not (answer.getheader("Content-Type") or "").startswith("application/json"):
            return data
        return _decode(data)


def _decode(data: bytes) -> Any:
    """JSON, or a list of its lines where there are several.  Raises EngineApiError for an error among them."""
    try:
        decoded = json.loads(data) if data.strip() else None
    except json.JSONDecodeError:
        decoded = [json.loads(line) for line in data.splitlines() if line.strip()]
    for message in decoded if isinstance(decoded, list) else [decoded]:
        if isinstance(message, dict) and "errorDetail" in message:
            raise EngineApiError(200, str(message["error"]))
    return decoded
