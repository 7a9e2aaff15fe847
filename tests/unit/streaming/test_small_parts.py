"""Sizes of terminals, statuses, tokens."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crishim.errors import ContainerNotRunning, EngineError, EngineUnavailable, TooManyPending
from crishim.model.streams import TerminalSize
from crishim.streaming.errors import ProtocolViolation
from crishim.streaming.sizes import SizeReader
from crishim.streaming.status import Status
from crishim.streaming.tokens import LIFETIME, MOST_PENDING, Tokens


def test_sizes_in_any_pieces() -> None:
    sent = b'{"Width":80,"Height":24}\n{"Width": 65535, "Height": 1}{"Height":0,"Width":5}{}{"Width":70000,"Height":3}'
    expected = [TerminalSize(80, 24), TerminalSize(65535, 1)]
    assert SizeReader().feed(sent) == expected
    reader = SizeReader()
    assert [size for byte in sent for size in reader.feed(bytes([byte]))] == expected


@pytest.mark.parametrize("sent", [b"}", b"[]}", b'{"Width":"80"}', b'{"Width":true}', b"[" * 4000 + b"}", b"x" * 5000])
def test_what_is_no_size_is_a_violation(sent: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        SizeReader().feed(sent)


@given(st.binary())
def test_bytes_of_any_kind_are_sizes_or_violations(noise: bytes) -> None:
    try:
        SizeReader().feed(noise)
    except ProtocolViolation:
        return


def test_success() -> None:
    assert json.loads(Status().as_json()) == {"metadata": {}, "status": "Success"}
    assert Status().as_text() == b""


@pytest.mark.parametrize("code", [1, 137, 255])
def test_exit_codes_as_clients_look_for_them(code: int) -> None:
    status = json.loads(Status(code).as_json())
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": str(code)}]
    assert str(code).encode() in Status(code).as_text()


def test_errors_have_code_reason_and_the_words() -> None:
    status = json.loads(Status.of_error(ContainerNotRunning("container c exited")).as_json())
    assert (status["status"], status["code"], status["reason"]) == ("Failure", 409, "Conflict")
    assert status["message"] == "container c exited"
    assert Status.of_error(EngineUnavailable("gone")).code == 503
    assert Status.of_error(EngineError("no such file")).code == 500
    assert Status.of_error(EngineError("no such file")).as_text() == b"no such file"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_token_is_long_works_once_and_lapses() -> None:
    clock = Clock()
    tokens: Tokens[str] = Tokens(clock)
    first, second = tokens.issue("a"), tokens.issue("b")
    assert first != second
    assert len(first) == 32
    assert set(first) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert (tokens.look_up(first), tokens.look_up(first)) == ("a", "a")
    tokens.use(first)
    assert tokens.look_up(first) is None
    clock.now += LIFETIME - 0.001
    assert tokens.look_up(second) == "b"
    clock.now += 0.001
    assert tokens.look_up(second) is None
    assert len(tokens) == 0


def test_their_number_is_bounded_and_comes_back() -> None:
    clock = Clock()
    tokens: Tokens[int] = Tokens(clock)
    issued = [tokens.issue(number) for number in range(MOST_PENDING)]
    for _ in range(10_000 - MOST_PENDING):
        with pytest.raises(TooManyPending):
            tokens.issue(0)
    tokens.use(issued[5])
    tokens.issue(0)
    clock.now += LIFETIME
    assert [tokens.issue(number) for number in range(MOST_PENDING)]
