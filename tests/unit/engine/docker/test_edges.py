"""Endpoints, names that go into URLs, features and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp
import pytest
from aiodocker.exceptions import DockerError

from crishim.engine.docker import DockerEngine
from crishim.engine.docker.errors import guard
from crishim.engine.docker.references import is_image_id, names_container, names_image, split_reference
from crishim.engine.features import FIRST_API, Feature, has, needs
from crishim.engine.values import EngineFacts
from crishim.errors import (
    CRIError,
    EngineConflict,
    EngineError,
    EngineNotFound,
    EngineTimeout,
    EngineUnavailable,
    EngineUnsuitable,
    Kind,
)


@pytest.mark.parametrize(
    "endpoint",
    ["tcp://127.0.0.1:2375", "http://x", "ssh://x", "npipe:////./pipe/x", "/var/run/docker.sock", "unix://x.sock", ""],
)
def test_only_unix_sockets(endpoint: str) -> None:
    with pytest.raises(EngineUnsuitable, match=r"unix:///path"):
        DockerEngine(endpoint)


async def test_no_call_before_the_handshake() -> None:
    engine = DockerEngine("unix:///nowhere")
    for call in (engine.inspect("x" * 64), engine.list_containers(), engine.list_images()):
        with pytest.raises(EngineUnavailable):
            await call
    await engine.close()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a?b", "a b", "-a", "ä", "a\n", "%2e%2e"])
def test_no_container_is_called_so(name: str) -> None:
    assert not names_container(name)


@pytest.mark.parametrize("name", ["a", "k8s_POD_pod-x_ns_uid_0", "0" * 64, "a.b"])
def test_a_container_may_be_called_so(name: str) -> None:
    assert names_container(name)


@pytest.mark.parametrize("name", ["", "..", "a/../b", "../containers/json", "a//b", "/a", "a/", "a?b", "a b", "a\n"])
def test_no_image_is_called_so(name: str) -> None:
    assert not names_image(name)


@pytest.mark.parametrize(
    "name", ["a", "a:1", "h:5000/a/b:1.2-x_y", "a@sha256:" + "0" * 64, "sha256:" + "0" * 64, "[::1]:5000/a:1"]
)
def test_an_image_may_be_called_so(name: str) -> None:
    assert names_image(name)


def test_ids_and_parts_of_references() -> None:
    assert is_image_id("sha256:" + "0" * 64)
    assert is_image_id("f" * 64)
    assert not is_image_id("f" * 63)
    assert not is_image_id("a@sha256:" + "0" * 64)
    assert split_reference("[::1]:5000/a:1@sha256:2") == ("[::1]:5000/a", "1", "sha256:2")


def test_features_follow_the_api(facts: Callable[..., EngineFacts]) -> None:
    assert set(FIRST_API) == set(Feature)
    for feature, (major, minor) in FIRST_API.items():
        assert has(facts((major, minor), cdi=True), feature)
        assert not has(facts((major, minor - 1), cdi=True), feature)
        assert f"{major}.{minor}" in needs(feature)
    assert not has(facts((1, 50)), Feature.CDI_DEVICES)


@pytest.mark.parametrize(
    ("error", "expected", "kind"),
    [
        (DockerError(400, "bad"), EngineError, Kind.INVALID_ARGUMENT),
        (DockerError(403, "no"), EngineError, Kind.PERMISSION_DENIED),
        (DockerError(404, "gone"), EngineNotFound, Kind.NOT_FOUND),
        (DockerError(409, "taken"), EngineConflict, Kind.FAILED_PRECONDITION),
        (DockerError(500, "oops"), EngineError, Kind.INTERNAL),
        (DockerError(501, "what"), EngineError, Kind.UNIMPLEMENTED),
        (DockerError(503, "busy"), EngineError, Kind.UNAVAILABLE),
        (DockerError(418, "teapot"), EngineError, Kind.UNKNOWN),
        (DockerError(500, "  "), EngineError, Kind.INTERNAL),
        (DockerError(900, "Cannot connect"), EngineUnavailable, Kind.UNAVAILABLE),
        (aiohttp.ServerDisconnectedError(), EngineUnavailable, Kind.UNAVAILABLE),
        (aiohttp.ClientPayloadError(), EngineUnavailable, Kind.UNAVAILABLE),
        (ConnectionResetError("reset"), EngineUnavailable, Kind.UNAVAILABLE),
        (FileNotFoundError(2, "no such file"), EngineUnavailable, Kind.UNAVAILABLE),
        (KeyError("Id"), EngineError, Kind.INTERNAL),
        (ValueError("not JSON"), EngineError, Kind.INTERNAL),
    ],
)
async def test_only_our_errors_come_out(error: Exception, expected: type[CRIError], kind: Kind) -> None:
    with pytest.raises(CRIError) as caught:
        async with guard("a test", 1, container="c"):
            raise error
    assert type(caught.value) is expected
    assert caught.value.kind is kind
    assert caught.value.ids == {"container": "c"}
    assert str(caught.value)


async def test_limit_of_time() -> None:
    with pytest.raises(EngineTimeout, match=r"a test.*0\.01"):
        async with guard("a test", 0.01):
            await asyncio.Event().wait()


async def test_cancellation_is_no_error_of_the_engine() -> None:
    async def call() -> None:
        async with guard("a test", 10):
            await asyncio.Event().wait()

    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
