"""Who comes without a good request or token: refused, bounded, and logged without the token."""

from __future__ import annotations

import asyncio
import logging
import os
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from crishim.errors import TooManyPending
from crishim.streaming import server as server_module
from crishim.streaming import tokens
from crishim.streaming.server import CannotListen, StreamingServer, StreamingSettings
from tests.component.streaming.conftest import Serve, until
from tests.component.streaming.fakes import Forward, Process, cat, says

SPDY = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"


async def ask(url: str, head: str | None = None, *, verb: str = "", method: str = "POST") -> bytes:
    """The answer's head to a request for a URL; what follows is not awaited."""
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    path = where.path if not verb else f"/{verb}/{where.path.split('/')[2]}"
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{SPDY if head is None else head}\r\n".encode())
    try:
        return await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()


def status(answer: bytes) -> int:
    return int(answer.split()[1])


async def test_urls_name_a_host_that_can_be_dialled_and_hold_a_long_secret(serve: Serve) -> None:
    for address, host in (("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1")):
        server = await serve(StreamingSettings(address=address))
        urls = [server.exec(Process(cat)), server.attach(Process(cat)), server.port_forward(Forward())]
        assert [urlsplit(url).path.split("/")[1] for url in urls] == ["exec", "attach", "portforward"]
        for url in urls:
            assert (urlsplit(url).scheme, urlsplit(url).hostname) == ("http", host)
            assert len(urlsplit(url).path.split("/")[2]) >= 22  # 128 bits in base64
        assert status(await ask(urls[0])) == 101


async def test_a_token_works_once(server: StreamingServer) -> None:
    url = server.exec(Process(says(b"")))
    assert [status(await ask(url)) for _ in range(3)] == [101, 404, 404]


async def test_guessed_tokens_and_those_of_another_verb(server: StreamingServer) -> None:
    url = server.exec(Process(cat))
    assert status(await ask(url[:-1] + ("A" if url[-1] != "A" else "B"))) == 404
    assert status(await ask(url, verb="attach")) == 404
    assert status(await ask(url, verb="portforward")) == 404
    assert status(await ask(url, method="DELETE")) == 405
    assert status(await ask(url)) == 101


async def test_a_token_lapses(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await serve(StreamingSettings())
    url = server.exec(Process(cat))
    now = server._tokens._clock() + tokens.LIFETIME
    monkeypatch.setattr(server._tokens, "_clock", lambda: now)
    assert status(await ask(url)) == 404


async def test_an_upgrade_that_fails_leaves_the_token_for_another_protocol(server: StreamingServer) -> None:
    url = server.exec(Process(says(b"hi"), stdin=False))
    assert status(await ask(url, "")) == 426
    assert status(await ask(url, SPDY.replace("v4", "v9"))) == 403
    with pytest.raises(InvalidStatus) as refused:
        await connect("ws" + url.removeprefix("http"), subprotocols=["nonsense"]).__aenter__()  # type: ignore[list-item]
    assert refused.value.response.status_code == 403
    async with connect("ws" + url.removeprefix("http"), subprotocols=["v4.channel.k8s.io"]) as client:  # type: ignore[list-item]
        assert [message async for message in client][1] == b"\x01hi"


async def test_10000_pending_are_refused_and_those_before_still_work(server: StreamingServer) -> None:
    urls = [server.exec(Process(says(b""))) for _ in range(tokens.MOST_PENDING)]
    for _ in range(10_000 - tokens.MOST_PENDING):
        with pytest.raises(TooManyPending):
            server.attach(Process(cat))
    assert status(await ask(urls[0])) == 101
    server.exec(Process(cat))


async def test_requests_that_two_servers_would_read_differently(server: StreamingServer) -> None:
    url = server.exec(Process(says(b"")))
    for head in (
        SPDY + "Content-Length: 4\r\n",
        SPDY + "Transfer-Encoding: chunked\r\n",
        SPDY + "Content-Length: 0\r\nContent-Length: 4\r\n",
        SPDY + "Content-Length : 0\r\n",
    ):
        assert status(await ask(url, head)) == 400
    assert status(await ask(url, SPDY + "X: " + "x" * 20_000 + "\r\n")) == 431
    assert status(await ask(url)) == 101


async def test_a_head_that_does_not_come_in_time(server: StreamingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "HEAD_SECONDS", 0.2)
    where = urlsplit(server.exec(Process(cat)))
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(b"GET / HTTP/1.1\r\nX: ")
    assert status(await asyncio.wait_for(reader.read(), 10)) == 408
    writer.close()


async def test_strangers_are_bounded_and_the_oldest_goes(
    server: StreamingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "MOST_STRANGERS", 5)
    where = urlsplit(server.exec(Process(cat)))
    held = [await asyncio.open_connection(where.hostname, where.port) for _ in range(25)]
    for reader, _ in held[:20]:
        assert await asyncio.wait_for(reader.read(), 10) == b""
    assert len(server._strangers) == 5
    assert status(await ask(server.exec(Process(says(b""))))) == 101
    for _, writer in held:
        writer.close()


async def test_no_token_is_logged(server: StreamingServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    url = server.exec(Process(says(b"")))
    token = urlsplit(url).path.split("/")[2]
    for head in ("", "\0\r\n", SPDY + "Content-Length: 4\r\n", SPDY, SPDY):
        assert token.encode() not in await ask(url, head)
    await until(lambda: "exec of container c0ffee ended" in caplog.text)
    assert "404" in caplog.text
    assert token not in caplog.text


async def test_bytes_of_any_kind_do_no_harm(server: StreamingServer) -> None:
    where = urlsplit(server.exec(Process(cat)))
    for size in (0, 1, 100, 100_000):
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        writer.write(os.urandom(size))
        writer.write_eof()
        await asyncio.wait_for(reader.read(), 15)
        writer.close()
    assert status(await ask(server.exec(Process(says(b""))))) == 101


@pytest.mark.parametrize("address", ["192.0.2.1:0", "[2001:db8::1]:0"])
def test_beyond_loopback_needs_tls_or_a_word(address: str) -> None:
    with pytest.raises(CannotListen, match="streaming-certificate"):
        StreamingServer(StreamingSettings(address=address))
    StreamingServer(StreamingSettings(address=address, insecure=True))


async def test_an_address_that_is_taken_or_not_ours(serve: Serve) -> None:
    first = await serve(StreamingSettings())
    with pytest.raises(CannotListen, match="in use"):
        await serve(StreamingSettings(address=first.url.removeprefix("http://")))
    with pytest.raises(CannotListen, match="assign"):
        await serve(StreamingSettings(address="192.0.2.1:0", insecure=True))
