"""The HTTP/1.1 request that opens a session, and the answer to it: bytes in, bytes out, no I/O.

RFC 9110 section 7.8 (Upgrade), RFC 6455 section 4.2 (WebSocket), and SPDY/3.1 as Kubernetes upgrades to it.
"""

from __future__ import annotations

import base64
import binascii
import http
from dataclasses import dataclass
from enum import Enum
from urllib.parse import parse_qs

import h11
from websockets.utils import accept_key

from crishim.streaming.errors import Refused

HEAD_LIMIT = 16 << 10
"""Bytes that the request's head may have; the clients of Kubernetes send less than one KiB."""
SPDY_VERSIONS = "X-Stream-Protocol-Version"
SPDY_ACCEPTED = "X-Accepted-Stream-Protocol-Versions"


class Transport(Enum):
    """What the connection is upgraded to; the value is the word in the header Upgrade."""

    SPDY = "SPDY/3.1"
    WEBSOCKET = "websocket"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A valid request for an upgrade. Whether there is anything under its path is not known yet."""

    verb: str
    token: str
    query: dict[str, list[str]]
    transport: Transport
    offered: tuple[str, ...]
    """Protocols within the transport, in the client's order; none from a client that is older than they are."""
    key: str
    """Sec-WebSocket-Key; empty with SPDY."""
    early: bytes
    """What came behind the head already: the first bytes of the protocol upgraded to."""


class RequestReader:
    """Reads one request's head; what follows it belongs to the next protocol."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
        self._fed = 0

    def feed(self, data: bytes) -> Upgrade | None:
        """The request once it is complete; None: more is needed. Raises Refused."""
        try:
            self._http.receive_data(data)
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            # Its text can quote the request, and with it the token.
            reason = "the request's head is too long" if error.error_status_hint == 431 else "malformed request"
            raise Refused(error.error_status_hint, reason) from None
        self._fed += len(data)
        if event is h11.NEED_DATA:
            return None
        # What is complete at once h11 takes at any length.
        if self._fed - len(self._http.trailing_data[0]) > HEAD_LIMIT:
            raise Refused(431, "the request's head is too long")
        if not isinstance(event, h11.Request):
            raise Refused(400, "a request was expected")
        return self._check(event)

    def _check(self, request: h11.Request) -> Upgrade:
        if request.http_version != b"1.1":
            raise Refused(505, "HTTP/1.1 is needed for an upgrade")
        verb, token, query = _split(request.target)
        headers: dict[str, list[str]] = {}
        for name, value in request.headers:
            headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        # A body would be read as the next protocol's bytes by one side and as HTTP by a proxy in front of it.
        if "transfer-encoding" in headers or headers.get("content-length", ["0"]) != ["0"]:
            raise Refused(400, "a request for an upgrade has no body")
        if "upgrade" not in _words(headers, "connection"):
            raise Refused(426, "an upgrade to SPDY/3.1 or WebSocket is needed", _UPGRADES)
        asked = _words(headers, "upgrade")
        methods: tuple[str, ...]
        if "websocket" in asked:
            transport, offered, key = Transport.WEBSOCKET, _list(headers, "sec-websocket-protocol"), _key(headers)
            methods = ("GET",)
        elif "spdy/3.1" in asked:
            transport, offered, key = Transport.SPDY, _list(headers, SPDY_VERSIONS.lower()), ""
            methods = ("GET", "POST")
        else:
            raise Refused(426, "an upgrade to SPDY/3.1 or WebSocket is needed", _UPGRADES)
        if request.method.decode("ascii") not in methods:
            raise Refused(405, "this method does not open a session", (("Allow", ", ".join(methods)),))
        early = self._http.trailing_data[0]
        return Upgrade(verb, token, query, transport, offered, key, bytes(early))


_UPGRADES = (("Upgrade", f"{Transport.SPDY.value}, {Transport.WEBSOCKET.value}"),)


def _split(target: bytes) -> tuple[str, str, dict[str, list[str]]]:
    path, _, query = target.decode("latin-1").partition("?")
    parts = path.split("/")
    if len(parts) != 3 or parts[0] or not parts[1] or not parts[2]:
        raise Refused(404, "there is nothing under this path")
    return parts[1], parts[2], parse_qs(query, max_num_fields=1000) if len(query) < HEAD_LIMIT else {}


def _list(headers: dict[str, list[str]], name: str) -> tuple[str, ...]:
    """The members of a header that is a list, which may come as several headers (RFC 9110 section 5.6.1)."""
    return tuple(word.strip() for value in headers.get(name, ()) for word in value.split(",") if word.strip())


def _words(headers: dict[str, list[str]], name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _list(headers, name))


def _key(headers: dict[str, list[str]]) -> str:
    if headers.get("sec-websocket-version") != ["13"]:
        raise Refused(426, "WebSocket version 13 is needed", (("Sec-WebSocket-Version", "13"), *_UPGRADES))
    keys = headers.get("sec-websocket-key", [])
    try:
        if len(keys) != 1 or len(base64.b64decode(keys[0], validate=True)) != 16:
            raise ValueError("not a key")
    except (binascii.Error, ValueError):
        raise Refused(400, "Sec-WebSocket-Key is not 16 bytes in base64") from None
    return keys[0]


def switching(upgrade: Upgrade, protocol: str) -> bytes:
    """The answer that accepts; `protocol` is the one chosen of those offered, or empty."""
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", f"Upgrade: {upgrade.transport.value}"]
    if upgrade.transport is Transport.WEBSOCKET:
        lines.append(f"Sec-WebSocket-Accept: {accept_key(upgrade.key)}")
        if protocol:
            lines.append(f"Sec-WebSocket-Protocol: {protocol}")
    elif protocol:
        lines.append(f"{SPDY_VERSIONS}: {protocol}")
    return _head(lines)


def refusal(refused: Refused) -> bytes:
    """The answer that refuses; the connection is closed behind it."""
    body = f"{refused.reason}\n".encode()
    lines = [
        f"HTTP/1.1 {refused.status} {http.HTTPStatus(refused.status).phrase}",
        "Connection: close",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in refused.headers),
    ]
    return _head(lines) + body


def _head(lines: list[str]) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("ascii")
