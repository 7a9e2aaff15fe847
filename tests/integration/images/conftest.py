"""The image room on a real engine, and a registry that does what a test wants: hang, lie, ask for tokens."""

from __future__ import annotations

import asyncio
import gzip
import json
import urllib.parse
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import pytest

from crishim.aiokit.background import Background
from crishim.engine.docker import DockerEngine
from crishim.images.service import Images, ImageSettings
from tests.env.engine import TestEngine
from tests.env.images import Image, sha256
from tests.env.registry import MANIFEST_TYPE


class Node:
    """The images of an engine. Whatever a test leaves in the engine is removed by name when it ends."""

    def __init__(self, docker: DockerEngine, world: TestEngine, **settings: Any) -> None:
        self.docker = docker
        self.world = world
        self.background = Background()
        self.users: dict[str, list[str]] = {}
        self.images = Images(
            lambda: docker,
            self.background,
            settings=ImageSettings(**settings),
            used_by=lambda image_id: self.users.get(image_id, []),
            facts=lambda: docker._facts,
        )

    def known(self) -> set[str]:
        """Ids of all images in the engine, not as crishim sees them."""
        return {row["Id"] for row in self.world.api.call("GET", "/images/json")}

    def names(self, reference: str) -> tuple[set[str], set[str]]:
        """Tags and digests that an image has in the engine, not as crishim sees them."""
        shown = self.world.api.call("GET", f"/images/{reference}/json")
        return set(shown["RepoTags"]), set(shown["RepoDigests"])

    @asynccontextmanager
    async def container(self, image: str) -> AsyncIterator[str]:
        """A container that never started, made by somebody else."""
        made = self.world.api.call("POST", "/containers/create", json_body={"Image": image, "Cmd": ["/x"]})["Id"]
        try:
            yield made
        finally:
            self.world.api.call("DELETE", f"/containers/{made}")

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Events reach the images inside the block."""
        async with self.docker.events() as stream:

            async def listen() -> None:
                async for event in stream:
                    self.images.on_event(event)

            task = asyncio.create_task(listen())
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def new_node(engine: TestEngine) -> AsyncIterator[Callable[..., Node]]:
    """`new_node(**settings)`: images on the shared engine, none of them read yet."""
    docker = DockerEngine(engine.url)
    await docker.connect()
    before = {row["Id"] for row in engine.api.call("GET", "/images/json")}
    nodes: list[Node] = []

    def make(**settings: Any) -> Node:
        nodes.append(Node(docker, engine, **settings))
        return nodes[-1]

    yield make
    for node in nodes:
        assert await node.background.drain(5) == []
    await docker.close()
    for row in engine.api.call("GET", "/images/json"):
        if row["Id"] not in before:
            engine.api.call("DELETE", f"/images/{row['Id']}", {"force": "1"})


@pytest.fixture
async def node(new_node: Callable[..., Node]) -> Node:
    """Images on the shared engine, read once."""
    node = new_node()
    await node.images.refresh()
    return node


_TRICKLE = 40_000
"""Bytes sent each 10 ms: engines tell of progress only once a MiB."""


class ScriptedRegistry:
    """A registry in the test's own loop (distribution-spec, "Pull"), in plain HTTP on loopback."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        """`METHOD path` to how often it was asked."""
        self.hang: set[str] = set()
        """Digests of blobs of which only the first half is ever sent."""
        self.trickle: set[str] = set()
        """Digests of blobs that come at 4 MB a second at most."""
        self.lie: set[str] = set()
        """Digests of blobs in whose place other bytes are sent."""
        self.bearer = ""
        """Token without which nothing is answered."""
        self.forms: list[dict[str, str]] = []
        """What was posted to the token service."""
        self.busy = 0
        """How many clients wait at this moment for blobs that hang or trickle."""
        self._changed = asyncio.Condition()
        self._content: dict[str, tuple[str, bytes]] = {}
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *error: object) -> None:
        """Refuse new connections, end those that are open, and return when all are."""
        assert self._server is not None
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def add(self, image: Image, name: str) -> list[str]:
        """Hold an image under `name:tag`; returns its layers' digests."""
        repository, _, tag = name.rpartition(":")
        layers = [gzip.compress(layer, 1, mtime=0) for layer in image.layers]
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST_TYPE,
                "config": {
                    "mediaType": "application/vnd.docker.container.image.v1+json",
                    "size": len(image.config_bytes),
                    "digest": sha256(image.config_bytes),
                },
                "layers": [
                    {
                        "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                        "size": len(layer),
                        "digest": sha256(layer),
                    }
                    for layer in layers
                ],
            }
        ).encode()
        for blob in (image.config_bytes, *layers):
            self._content[f"/v2/{repository}/blobs/{sha256(blob)}"] = ("application/octet-stream", blob)
        for reference in (tag, sha256(manifest)):
            self._content[f"/v2/{repository}/manifests/{reference}"] = (MANIFEST_TYPE, manifest)
        return [sha256(layer) for layer in layers]

    async def until_busy(self, count: int) -> None:
        """Return when so many clients wait."""
        async with self._changed, asyncio.timeout(30):
            await self._changed.wait_for(lambda: self.busy == count)

    async def _count(self, change: int) -> None:
        async with self._changed:
            self.busy += change
            self._changed.notify_all()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = await reader.readexactly(1)
            if first == b"\x16":
                # The greeting of TLS, which engines try first; by this answer they know better, and wait for none.
                writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
                return
            while await self._answer(first, reader, writer):
                first = b""
        except (OSError, asyncio.IncompleteReadError):
            pass  # a client that has gone
        finally:
            writer.close()

    async def _answer(self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:])}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.requests[f"{method} {path}"] += 1
        if path == "/token":
            self.forms.append(dict(urllib.parse.parse_qsl(body.decode())))
            answer = json.dumps({"access_token": self.bearer, "expires_in": 300}).encode()
            return self._send(writer, 200, {"Content-Type": "application/json"}, answer)
        if self.bearer and headers.get("authorization") != f"Bearer {self.bearer}":
            challenge = f'Bearer realm="http://{self.address}/token",service="test",scope="repository:x:pull"'
            return self._send(writer, 401, {"WWW-Authenticate": challenge}, b"{}")
        if path == "/v2/":
            return self._send(writer, 200, {}, b"{}")
        if path not in self._content:
            words = b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}'
            return self._send(writer, 404, {"Content-Type": "application/json"}, words)
        kind, content = self._content[path]
        digest = sha256(content)
        if digest in self.lie:
            content = bytes(len(content))
        sent = {"Content-Type": kind, "Docker-Content-Digest": digest}
        if method == "HEAD" or digest not in self.hang | self.trickle:
            return self._send(writer, 200, sent, content, with_body=method != "HEAD")
        at = len(content) // 2 if digest in self.hang else 1
        self._send(writer, 200, sent, content, part=at)
        await self._count(1)
        gone = asyncio.create_task(reader.read())  # returns when the client gives up
        try:
            while digest in self.trickle and at < len(content) and not gone.done():
                writer.write(content[at : at + _TRICKLE])
                at += _TRICKLE
                await asyncio.wait((gone,), timeout=0.01)
            await gone
        finally:
            gone.cancel()
            await self._count(-1)
        return False

    def _send(
        self,
        writer: asyncio.StreamWriter,
        status: int,
        headers: dict[str, str],
        body: bytes,
        *,
        with_body: bool = True,
        part: int | None = None,
    ) -> bool:
        head = {"Docker-Distribution-Api-Version": "registry/2.0", "Content-Length": str(len(body)), **headers}
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + (body[:part] if with_body else b""))
        return True


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedRegistry]:
    """A registry that does what the test wants."""
    async with ScriptedRegistry() as registry:
        yield registry
