"""The engine's answers to a request for a stream, fed byte by byte."""

from __future__ import annotations

import pytest

from crishim.engine.docker.upgrade import UpgradeAnswer, upgrade_request

UPGRADED = b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nUpgrade: tcp\r\n\r\n"


def feed_slowly(data: bytes) -> tuple[UpgradeAnswer, bytes | None]:
    answer, rest = UpgradeAnswer(), None
    for position in range(len(data)):
        assert rest is None, "whole before its end"
        rest = answer.feed(data[position : position + 1])
    return answer, rest


def test_bytes_that_come_with_the_upgrade_are_the_streams() -> None:
    answer = UpgradeAnswer()
    assert answer.feed(UPGRADED + b"early") == b"early"
    assert answer.upgraded


def test_an_upgrade_byte_by_byte() -> None:
    answer, rest = feed_slowly(UPGRADED)
    assert (rest, answer.status, answer.upgraded) == (b"", 101, True)


def test_a_refusal_with_a_length() -> None:
    body = b'{"message":"No such exec instance: x"}\n'
    answer, rest = feed_slowly(b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert (rest, answer.status, answer.upgraded) == (b"", 404, False)
    assert answer.message == "No such exec instance: x"


def test_a_refusal_in_chunks() -> None:
    head = b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer, rest = feed_slowly(head + b'9\r\n{"message\r\n9;x=y\r\n":"paused\r\n2\r\n"}\r\n0\r\n\r\n')
    assert (rest, answer.status) == (b"", 409)
    assert answer.message == "paused"


def test_a_refusal_that_ends_with_the_connection() -> None:
    answer, rest = feed_slowly(b"HTTP/1.1 404 Not Found\r\nContent-Type: x\r\n\r\nNo such container: y\r\n")
    assert rest is None
    assert answer.end()
    assert answer.message.strip() == "No such container: y"


@pytest.mark.parametrize(
    "data", [b"", b"HTTP/1.1 404 Not Fo", b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nabc"]
)
def test_a_connection_that_breaks_off_is_no_answer(data: bytes) -> None:
    answer, rest = feed_slowly(data)
    assert rest is None
    assert not answer.end()


@pytest.mark.parametrize("data", [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"x" * 100_000])
def test_what_is_no_answer(data: bytes) -> None:
    with pytest.raises(ValueError, match="answer"):
        UpgradeAnswer().feed(data)


def test_the_request_carries_its_body_whole() -> None:
    request = upgrade_request("/v1.41/exec/x/start", b'{"Tty": true}')
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1.41/exec/x/start HTTP/1.1\r\n")
    assert b"Upgrade: tcp" in head
    assert b"Content-Length: 13" in head
    assert body == b'{"Tty": true}'
