"""The request that opens a session: read in any pieces, refused for any fault, nothing behind it lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crishim.streaming import protocols
from crishim.streaming.errors import Refused
from crishim.streaming.upgrade import HEAD_LIMIT, RequestReader, Transport, Upgrade, refusal, switching
from tests.unit.streaming.spdy_client import feed_all

SPDY = ("Connection: Upgrade", "Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io")
WEBSOCKET = (
    "Connection: keep-alive, Upgrade",
    "Upgrade: WebSocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol: v5.channel.k8s.io, v4.channel.k8s.io",
)


def request(*headers: str, line: str = "GET /exec/t0ken HTTP/1.1", host: str = "Host: localhost") -> bytes:
    return "\r\n".join([line, *filter(None, [host]), *headers, "", ""]).encode("latin-1")


def read(data: bytes) -> Upgrade:
    upgrade = RequestReader().feed(data)
    assert upgrade is not None
    return upgrade


def refused(data: bytes) -> Refused:
    with pytest.raises(Refused) as caught:
        RequestReader().feed(data)
    assert refusal(caught.value).startswith(f"HTTP/1.1 {caught.value.status} ".encode())
    assert b"t0ken" not in refusal(caught.value)
    return caught.value


def test_spdy_as_kubernetes_clients_ask_for_it() -> None:
    upgrade = read(
        request(
            *SPDY[:2],
            "X-Stream-Protocol-Version: v4.channel.k8s.io",
            "X-Stream-Protocol-Version: v3.channel.k8s.io",
            "Content-Length: 0",
            line="POST /exec/t0ken?x=1 HTTP/1.1",
        )
    )
    assert (upgrade.verb, upgrade.token, upgrade.query) == ("exec", "t0ken", {"x": ["1"]})
    assert upgrade.transport is Transport.SPDY
    assert upgrade.offered == ("v4.channel.k8s.io", "v3.channel.k8s.io")
    answer = switching(upgrade, "v4.channel.k8s.io")
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n" in answer


def test_websocket_with_the_specifications_key() -> None:
    upgrade = read(request(*WEBSOCKET))
    assert upgrade.transport is Transport.WEBSOCKET
    assert upgrade.offered == ("v5.channel.k8s.io", "v4.channel.k8s.io")
    answer = switching(upgrade, "v5.channel.k8s.io")
    assert b"\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer
    assert b"\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n" in answer


def test_one_byte_at_a_time_with_bytes_of_the_next_protocol_behind() -> None:
    reader, whole = RequestReader(), request(*SPDY)
    for byte in whole[:-1]:
        assert reader.feed(bytes([byte])) is None
    upgrade = reader.feed(whole[-1:] + b"\x80\x03early")
    assert upgrade is not None
    assert upgrade.early == b"\x80\x03early"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request(*SPDY, line="PUT /exec/t0ken HTTP/1.1"), 405),
        (request(*WEBSOCKET, line="POST /exec/t0ken HTTP/1.1"), 405),
        (request(*SPDY, line="GET /exec/t0ken HTTP/1.0"), 505),
        (request(*SPDY, line="GET /exec HTTP/1.1"), 404),
        (request(*SPDY, line="GET / HTTP/1.1"), 404),
        (request(*SPDY, line="GET /exec/t0ken/more HTTP/1.1"), 404),
        (request(*SPDY, line="GET http://host/exec/t0ken HTTP/1.1"), 404),
        (request(*SPDY, line="OPTIONS * HTTP/1.1"), 404),
        (request(), 426),
        (request("Upgrade: SPDY/3.1"), 426),
        (request("Connection: Upgrade", "Upgrade: h2c"), 426),
        (request("Connection: Upgrade", "Upgrade: websocket"), 426),
        (request(*WEBSOCKET[:2], "Sec-WebSocket-Version: 8", *WEBSOCKET[3:]), 426),
        (request(*WEBSOCKET[:3]), 400),
        (request(*WEBSOCKET[:3], "Sec-WebSocket-Key: c2hvcnQ="), 400),
        (request(*WEBSOCKET, WEBSOCKET[3]), 400),
        (request(*SPDY, host=""), 400),
        (request(*SPDY, "Host: twice"), 400),
        # smuggling: what one server takes for a body, another takes for the next request
        (request(*SPDY, "Content-Length: 5") + b"GET /", 400),
        (request(*SPDY, "Content-Length: 0", "Content-Length: 5"), 400),
        (request(*SPDY, "Transfer-Encoding: chunked") + b"0\r\n\r\n", 400),
        (request(*SPDY, "Content-Length: 0", "Transfer-Encoding: chunked"), 400),
        (request(*SPDY, "Content-Length: -0"), 400),
        (request(*SPDY, "Transfer-Encoding : chunked"), 400),
        (request(*SPDY, "X: a\r\n folded\0"), 400),
        (request(*SPDY, line="GET /exec/t0ken  HTTP/1.1"), 400),
        (request(*SPDY, line="GET /exec/t0ken\x01 HTTP/1.1"), 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"nonsense\r\n\r\n", 400),
        (request(*SPDY, "X: " + "x" * HEAD_LIMIT), 431),
        (b"GET /" + b"x" * (HEAD_LIMIT + 1), 431),
    ],
)
def test_refused(data: bytes, status: int) -> None:
    assert refused(data).status == status


def test_a_head_that_never_ends_is_bounded() -> None:
    with pytest.raises(Refused) as caught:
        feed_all(RequestReader().feed, [request(*SPDY)[:-2], *[b"X: " + b"y" * 100 + b"\r\n"] * 1000])
    assert caught.value.status == 431


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_refused_or_awaited(noise: bytes) -> None:
    for data in (noise, noise + b"\r\n\r\n", request(*SPDY)[:-2] + noise + b"\r\n\r\n"):
        try:
            RequestReader().feed(data)
        except Refused:
            continue


def offering(transport: Transport, *offered: str) -> Upgrade:
    return Upgrade("exec", "t", {}, transport, offered, "", b"")


def test_the_first_protocol_that_is_known_is_chosen() -> None:
    chosen = protocols.choose_process(
        offering(Transport.SPDY, "v9.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io")
    )
    assert (chosen.name, chosen.version, chosen.has_json_status, chosen.has_resize) == (
        "v4.channel.k8s.io",
        4,
        True,
        True,
    )
    chosen = protocols.choose_process(offering(Transport.WEBSOCKET, "base64.channel.k8s.io"))
    assert (chosen.version, chosen.base64, chosen.has_json_status, chosen.has_resize) == (1, True, False, False)
    assert protocols.choose_process(offering(Transport.SPDY)).version == 1
    with pytest.raises(Refused) as caught:
        protocols.choose_process(offering(Transport.SPDY, "base64.channel.k8s.io"))
    assert caught.value.status == 403
    assert b"X-Accepted-Stream-Protocol-Versions: v5.channel.k8s.io" in refusal(caught.value)


def test_the_protocols_of_port_forward() -> None:
    assert protocols.choose_forward(offering(Transport.SPDY, "portforward.k8s.io")) == protocols.PORT_FORWARD
    assert protocols.choose_forward(offering(Transport.WEBSOCKET, protocols.TUNNEL)) == protocols.TUNNEL
    channels = protocols.choose_forward(offering(Transport.WEBSOCKET, "v4.base64.channel.k8s.io"))
    assert isinstance(channels, protocols.Channels)
    assert channels.base64
    for transport in Transport:
        with pytest.raises(Refused):
            protocols.choose_forward(offering(transport, "v1.channel.k8s.io"))
