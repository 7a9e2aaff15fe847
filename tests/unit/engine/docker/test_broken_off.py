"""Broken connections in words of ours: what the HTTP client writes is for those who know it."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp.client_exceptions import UnixClientConnectorError

from crishim.engine.docker.errors import broken_off, guard
from crishim.errors import EngineUnavailable

KEY: Any = SimpleNamespace(host="engine", port=80, is_ssl=False, ssl=None)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (
            UnixClientConnectorError("/run/docker.sock", KEY, FileNotFoundError(errno.ENOENT, "x")),
            "/run/docker.sock: x",
        ),
        (ConnectionResetError(errno.ECONNRESET, "x"), "Connection reset by peer"),
        (aiohttp.ClientOSError(errno.EPIPE, "x"), "Broken pipe"),
        (ConnectionResetError("Cannot write to closing transport"), "it was closed"),
        (aiohttp.ServerDisconnectedError(), "it was closed before the answer"),
        (aiohttp.ClientConnectionError("Connection lost"), "it was closed"),
        (
            aiohttp.ClientPayloadError("Response payload is not completed: <TransferEncodingError: 400>"),
            "it broke off in the middle of the answer",
        ),
        (
            aiohttp.ClientResponseError(cast(Any, SimpleNamespace(real_url="http://engine/")), (), status=400),
            "what came is no HTTP",
        ),
        (ValueError("whatever"), "it failed with ValueError"),
    ],
)
def test_words(cause: Exception, words: str) -> None:
    assert str(broken_off("list of images", cause)) == f"list of images: no connection to the engine: {words}"


async def test_calls_end_with_them() -> None:
    with pytest.raises(
        EngineUnavailable, match=r"^a call: no connection to the engine: it was closed before the answer$"
    ):
        async with guard("a call", 1):
            raise aiohttp.ServerDisconnectedError
