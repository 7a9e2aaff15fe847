"""The protocols of Kubernetes within SPDY and WebSocket: their names, what each can do, and choosing one.

Exec and attach have versions 1 to 5 ("channel.k8s.io" is 1). From 2 on a client may end stdin (SPDY only, WebSocket
from 5 on), from 3 on it sends the terminal's size, from 4 on the status is a metav1.Status in JSON. Port-forward is
"portforward.k8s.io" in SPDY, the same tunnelled in WebSocket, or channels of version 4 there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crishim.streaming.errors import Refused
from crishim.streaming.upgrade import SPDY_ACCEPTED, Transport, Upgrade

_RESIZE_FROM = 3
_JSON_STATUS_FROM = 4


@dataclass(frozen=True, slots=True)
class Channels:
    """A version of the protocol of exec and attach, or of port-forward by channels."""

    name: str
    version: int
    base64: bool = False

    @property
    def has_resize(self) -> bool:
        """Whether the client sends the terminal's size."""
        return self.version >= _RESIZE_FROM

    @property
    def has_json_status(self) -> bool:
        """Whether the end is told as metav1.Status; else as plain text, and success as nothing."""
        return self.version >= _JSON_STATUS_FROM


def _named(*protocols: Channels) -> Mapping[str, Channels]:
    return {protocol.name: protocol for protocol in protocols}


_BINARY = (*(Channels(f"v{n}.channel.k8s.io", n) for n in (5, 4, 3, 2, 1)), Channels("channel.k8s.io", 1))
_BASE64 = (Channels("v4.base64.channel.k8s.io", 4, base64=True), Channels("base64.channel.k8s.io", 1, base64=True))
_UNNAMED = Channels("", 1)
"""What a client speaks that offers no protocol."""

PROCESS: Mapping[Transport, Mapping[str, Channels]] = {
    Transport.SPDY: _named(*_BINARY),
    Transport.WEBSOCKET: _named(*_BINARY, *_BASE64),
}
PORT_FORWARD = "portforward.k8s.io"
TUNNEL = "SPDY/3.1+portforward.k8s.io"
FORWARD_CHANNELS = _named(
    Channels("v4.channel.k8s.io", 4),
    Channels("v4.base64.channel.k8s.io", 4, base64=True),
)


def choose_process(upgrade: Upgrade) -> Channels:
    """The first protocol of the client's that is known here. Raises Refused when there is none."""
    known = PROCESS[upgrade.transport]
    if not upgrade.offered:
        return _UNNAMED
    for name in upgrade.offered:
        if name in known:
            return known[name]
    raise _unknown(upgrade, tuple(known))


def choose_forward(upgrade: Upgrade) -> Channels | str:
    """`PORT_FORWARD`, `TUNNEL` or channels, likewise. A client that offers none gets what its transport had first."""
    if upgrade.transport is Transport.SPDY:
        if not upgrade.offered or PORT_FORWARD in upgrade.offered:
            return PORT_FORWARD
        raise _unknown(upgrade, (PORT_FORWARD,))
    for name in upgrade.offered:
        if name == TUNNEL:
            return TUNNEL
        if name in FORWARD_CHANNELS:
            return FORWARD_CHANNELS[name]
    if not upgrade.offered:
        return Channels("", 4)
    raise _unknown(upgrade, (TUNNEL, *FORWARD_CHANNELS))


def _unknown(upgrade: Upgrade, known: tuple[str, ...]) -> Refused:
    headers: tuple[tuple[str, str], ...] = ()
    if upgrade.transport is Transport.SPDY:
        headers = ((SPDY_ACCEPTED, ", ".join(known)),)
    return Refused(403, f"none of the protocols offered is known here; known are {', '.join(known)}", headers)
