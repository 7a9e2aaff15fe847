"""Debian's docker-registry on loopback, in plain HTTP (engines accept that of 127.0.0.0/8) or with a certificate, with
or without password.

Rule for pushing: distribution-spec, "Pushing blobs" (POST then PUT) and "Pushing Manifests".
"""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import socket
import ssl
import struct
import subprocess
import time
import urllib.parse
import zlib
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.env.cache import unpacked
from tests.env.images import Image, sha256

USERNAME = "crishim"
PASSWORD = "not-a-secret"
HTPASSWD = "crishim:$2b$05$6QYRYSYT3PX.1zVmpNfSN.EUEUCkPvrpeYBVasi97zc8MT3caYyVm\n"
"""USERNAME with the bcrypt of PASSWORD; fixed, because Python cannot make one and the password protects nothing."""

MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG_TYPE = "application/vnd.docker.container.image.v1+json"
_LAYER_TYPE = "application/vnd.docker.image.rootfs.diff.tar.gzip"
START_LIMIT = 20.0


class RegistryError(Exception):
    """The registry answered with an error status: ``status`` and its words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclass(frozen=True)
class Certificate:
    """PEM files: a server's certificate and key, and the authority that signed it."""

    authority: Path
    certificate: Path
    key: Path


class Registry:
    """One registry.  A context manager: started on entry, gone with its data on exit."""

    def __init__(
        self, folder: Path, *, password: bool = False, port: int = 0, certificate: Certificate | None = None
    ) -> None:
        """``folder``: made on start, removed on stop.  ``password``: nothing is answered without USERNAME's.

        ``port``: 0 is a free one.  ``certificate``: HTTPS; it must be valid for 127.0.0.1, too.
        """
        self.folder = folder
        self.username = USERNAME if password else ""
        self.password = PASSWORD if password else ""
        self.port = port or _free_port()
        self._certificate = certificate
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<Registry {self.address}{' with password' if self.password else ''}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """``127.0.0.1:PORT``, the registry part of references."""
        return f"127.0.0.1:{self.port}"

    def ref(self, name: str) -> str:
        """The full reference of ``name:tag`` or ``name@digest`` here."""
        return f"{self.address}/{name}"

    def start(self) -> None:
        """Start it and wait until it answers.  Raises RuntimeError with its last words when it does not."""
        program = unpacked("docker-registry") / "usr/bin/docker-registry"
        self.folder.mkdir(parents=True)
        settings: dict[str, object] = {
            "version": "0.1",
            "log": {"level": "warn", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(self.folder / "data")}, "delete": {"enabled": True}},
            "http": {"addr": self.address},
        }
        if self._certificate:
            files = {"certificate": str(self._certificate.certificate), "key": str(self._certificate.key)}
            settings["http"] = {"addr": self.address, "tls": files}
        if self.password:
            (self.folder / "htpasswd").write_text(HTPASSWD)
            settings["auth"] = {"htpasswd": {"realm": "crishim tests", "path": str(self.folder / "htpasswd")}}
        config = self.folder / "config.yml"
        config.write_text(json.dumps(settings))  # JSON is YAML
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [program, "serve", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._wait_ready()

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_LIMIT
        while True:
            try:
                self.request("GET", "/v2/")
                return
            except OSError:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    words = (self.folder / "log").read_text(errors="replace").strip()
                    self.stop()
                    raise RuntimeError(f"docker-registry does not serve {self.address}: {words[-500:]}") from None
                time.sleep(0.02)

    def stop(self) -> None:
        """End it and remove its data."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def request(
        self, method: str, target: str, body: bytes = b"", content_type: str = "application/octet-stream"
    ) -> http.client.HTTPResponse:
        """One call with the password, if there is one.  Raises RegistryError, OSError."""
        headers = {"Content-Type": content_type, "Accept": MANIFEST_TYPE}
        if self.password:
            headers["Authorization"] = basic_auth(self.username, self.password)
        connection = self._connection()
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            words = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise RegistryError(answer.status, words.decode(errors="replace").strip())
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        if self._certificate is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        trust = ssl.create_default_context(cafile=str(self._certificate.authority))
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=trust)

    def push(self, image: Image, name: str) -> str:
        """Store an image under ``name:tag``; returns the manifest's digest, as in ``name@sha256:...``."""
        repository, _, tag = name.rpartition(":")
        for blob in (image.config_bytes, *map(_gzip, image.layers)):
            self._push_blob(repository, blob)
        manifest = make_manifest(image)
        self.request("PUT", f"/v2/{repository}/manifests/{tag}", manifest, MANIFEST_TYPE)
        return sha256(manifest)

    def _push_blob(self, repository: str, blob: bytes) -> None:
        location = self.request("POST", f"/v2/{repository}/blobs/uploads/").getheader("Location") or ""
        url = urllib.parse.urlsplit(location)
        query = urllib.parse.urlencode([*urllib.parse.parse_qsl(url.query), ("digest", sha256(blob))])
        self.request("PUT", f"{url.path}?{query}", blob)


def basic_auth(username: str, password: str) -> str:
    """The value of an ``Authorization`` header."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def make_manifest(image: Image) -> bytes:
    """The manifest that ``push`` stores: the same bytes, and so the same digest, on every machine."""
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": _descriptor(_CONFIG_TYPE, image.config_bytes),
        "layers": [_descriptor(_LAYER_TYPE, _gzip(layer)) for layer in image.layers],
    }
    return json.dumps(manifest).encode()


def _gzip(data: bytes) -> bytes:
    """The data in gzip's format, stored and not compressed: fast, and independent of the version of zlib.

    Rules: RFC 1952 section 2.3 (member), RFC 1951 section 3.2.4 (stored blocks).
    """
    parts = [b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]
    for start in range(0, max(len(data), 1), 0xFFFF):
        block = data[start : start + 0xFFFF]
        last = start + len(block) == len(data)
        parts += [struct.pack("<BHH", last, len(block), len(block) ^ 0xFFFF), block]
    return b"".join([*parts, struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)])


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "size": len(blob), "digest": sha256(blob)}


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
