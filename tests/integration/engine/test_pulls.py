"""Pulls through a real engine from a real registry, and what can go wrong in the middle."""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import suppress

import pytest

from crishim.engine.docker import DockerEngine
from crishim.engine.values import PullProgress, RegistryAuth
from crishim.errors import (
    CRIError,
    EngineError,
    EngineNotFound,
    ImageNotFound,
    InvalidArgument,
    Kind,
    RegistryUnavailable,
)
from tests.env.images import File, Image, busybox
from tests.env.registry import MANIFEST_TYPE, Registry

pytestmark = pytest.mark.engine


@pytest.fixture
def image(request: pytest.FixtureRequest) -> Image:
    """An image that only this test has."""
    return (
        busybox()
        .with_config(Labels={"test": request.node.name})
        .with_files(File("etc/made-for", request.node.name.encode() * 1000))
    )


async def pull(docker: DockerEngine, reference: str, auth: RegistryAuth | None = None) -> list[PullProgress]:
    async with asyncio.timeout(60), docker.pull(reference, auth) as progress:
        return [step async for step in progress]


async def remove(docker: DockerEngine, reference: str) -> None:
    with suppress(EngineNotFound):
        await docker.remove_image((await docker.inspect_image(reference)).id)


async def test_by_tag_and_by_digest(docker: DockerEngine, registry: Registry, image: Image) -> None:
    digest = registry.push(image, "pulls/plain:1")
    tagged, pinned = registry.ref("pulls/plain:1"), registry.ref(f"pulls/plain@{digest}")
    steps = await pull(docker, tagged)
    assert {"Pull complete"} <= {step.stage for step in steps}
    assert any(step.total and step.current for step in steps)
    found = await docker.inspect_image(tagged)
    assert found.digests == (pinned,)
    assert found.tags == (tagged,)
    await pull(docker, tagged)
    await docker.remove_image(found.id)
    await pull(docker, pinned)
    found = await docker.inspect_image(pinned)
    assert (found.tags, found.digests) == ((), (pinned,))
    await docker.remove_image(pinned)
    with pytest.raises(EngineNotFound):
        await docker.inspect_image(found.id)


async def test_password(docker: DockerEngine, auth_registry: Registry, image: Image) -> None:
    auth_registry.push(image, "pulls/secret:1")
    reference = auth_registry.ref("pulls/secret:1")
    wrong = RegistryAuth(server=auth_registry.address, username=auth_registry.username, password="wrong")
    for auth in (None, wrong, RegistryAuth(registry_token="wrong"), RegistryAuth(identity_token="wrong")):
        with pytest.raises(EngineError) as caught:
            await pull(docker, reference, auth)
        assert caught.value.kind is Kind.PERMISSION_DENIED
        assert "wrong" not in str(caught.value)
    right = RegistryAuth(username=auth_registry.username, password=auth_registry.password)
    await pull(docker, reference, right)
    await remove(docker, reference)


async def test_what_is_not_there(docker: DockerEngine, registry: Registry, image: Image) -> None:
    registry.push(image, "pulls/there:1")
    zero = "sha256:" + "0" * 64
    for name in ("pulls/there:2", "pulls/nowhere:1", f"pulls/there@{zero}"):
        with pytest.raises(ImageNotFound):
            await pull(docker, registry.ref(name))
    for name in ("pulls/There:1", "", "a b", "../x"):
        with pytest.raises(InvalidArgument):
            await pull(docker, name)


async def test_registry_that_is_not_there(docker: DockerEngine) -> None:
    with pytest.raises(RegistryUnavailable, match=r"^RegistryUnavailable: .*refused"):
        await pull(docker, "127.0.0.1:1/pulls/none:1")


async def test_error_inside_the_stream(docker: DockerEngine, registry: Registry, image: Image) -> None:
    """A layer that is not what its digest says: the engine has answered 200 by then."""
    registry.push(image, "pulls/broken:1")
    digest = _own_layer(registry, "pulls/broken:1").removeprefix("sha256:")
    layer = registry.folder / "data/docker/registry/v2/blobs/sha256" / digest[:2] / digest / "data"
    layer.write_bytes(b"\0" * layer.stat().st_size)
    seen: list[PullProgress] = []
    with pytest.raises(CRIError) as caught:
        async with asyncio.timeout(60), docker.pull(registry.ref("pulls/broken:1"), None) as progress:
            seen += [step async for step in progress]
    assert caught.value.kind in (Kind.UNKNOWN, Kind.INTERNAL)
    with pytest.raises(EngineNotFound):
        await docker.inspect_image(registry.ref("pulls/broken:1"))


def _own_layer(registry: Registry, name: str) -> str:
    """Digest of an image's last layer, which is the test's own."""
    repository, _, tag = name.rpartition(":")
    answer = _fetch(registry, "GET", f"/v2/{repository}/manifests/{tag}", MANIFEST_TYPE)
    digest: str = json.loads(answer.partition(b"\r\n\r\n")[2])["layers"][-1]["digest"]
    return digest


async def test_leaving_early_stops_the_engine(docker: DockerEngine, registry: Registry, image: Image) -> None:
    """The engine lets go of the registry when the pull's context is left, and can pull again at once."""
    registry.push(image, "pulls/slow:1")
    held = f"/blobs/{_own_layer(registry, 'pulls/slow:1')}"
    arrived, left = asyncio.Event(), asyncio.Event()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass requests on to the registry, but never end an answer for the image's own layer."""
        try:
            while (first := await reader.readexactly(1)) != b"\x16":  # TLS, which an engine tries before
                head = first + await reader.readuntil(b"\r\n\r\n")
                line = head.split(b"\r\n")[0].decode()
                if held in line:  # the layer
                    arrived.set()
                    await _trickle(reader, writer)
                    left.set()
                    return
                method, target, _ = line.split()
                writer.write(await asyncio.to_thread(_fetch, registry, method, target, MANIFEST_TYPE))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    reference = f"127.0.0.1:{server.sockets[0].getsockname()[1]}/pulls/slow:1"

    async def follow() -> None:
        async with docker.pull(reference, None) as progress:
            async for _ in progress:
                pass

    for _ in range(2):
        arrived.clear()
        left.clear()
        task = asyncio.create_task(follow())
        await asyncio.wait_for(arrived.wait(), 30)
        task.cancel()
        await asyncio.wait([task], timeout=10)
        assert task.cancelled()
        await asyncio.wait_for(left.wait(), 30)
    server.close()
    with pytest.raises(EngineNotFound):
        await docker.inspect_image(reference)


async def _trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with a little now and then until the other side hangs up; a silent answer holds 20.10 for ever."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 100000000\r\n\r\n")
    hung_up = asyncio.create_task(reader.read())
    while not (await asyncio.wait([hung_up], timeout=0.05))[0]:
        writer.write(b"\0" * 4096)
    await asyncio.gather(hung_up, return_exceptions=True)


def _fetch(registry: Registry, method: str, target: str, accept: str = "*/*") -> bytes:
    """A registry's answer as it goes over the wire."""
    connection = http.client.HTTPConnection("127.0.0.1", registry.port, timeout=30)
    try:
        connection.request(method, target, headers={"Accept": accept})
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    headers = "".join(
        f"{name}: {value}\r\n" for name, value in answer.getheaders() if name.lower() != "transfer-encoding"
    )
    return f"HTTP/1.1 {answer.status} {answer.reason}\r\n{headers}\r\n".encode() + body
