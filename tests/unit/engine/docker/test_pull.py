from __future__ import annotations

import base64
import json

import pytest

from crishim.engine.docker.pull import auth_header, progress_from, pull_failure, pull_query
from crishim.engine.values import RegistryAuth
from crishim.errors import EngineError, ImageNotFound, InvalidArgument, Kind, RegistryUnavailable

REF = "127.0.0.1:5000/a/b:1"
DENIED = (EngineError, Kind.PERMISSION_DENIED)
UNREACHABLE = (RegistryUnavailable, Kind.UNKNOWN)
MISSING = (ImageNotFound, Kind.NOT_FOUND)
BUSY = (EngineError, Kind.RESOURCE_EXHAUSTED)


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        # as engines 20.10, 26.1 and 28.5 say it, with both image stores
        (404, "manifest for 127.0.0.1:5000/a/b:1 not found: manifest unknown: manifest unknown", MISSING),
        (404, "pull access denied for a/b, repository does not exist or may require 'docker login': denied: ", MISSING),
        (400, "invalid reference format: repository name must be lowercase", (InvalidArgument, Kind.INVALID_ARGUMENT)),
        (500, 'Head "http://127.0.0.1:5000/v2/a/b/manifests/1": no basic auth credentials', DENIED),
        (500, "unauthorized: authentication required", DENIED),
        (401, "unauthorized: authentication required", DENIED),
        (500, "error parsing HTTP 403 response body: unexpected end of JSON input", DENIED),
        (
            500,
            f'unknown: failed to resolve reference "{REF}": unexpected status from HEAD request to x: 401 Unauthorized',
            DENIED,
        ),
        (500, 'Get "http://127.0.0.1:5000/v2/": dial tcp 127.0.0.1:5000: connect: connection refused', UNREACHABLE),
        (500, 'Get "https://x/v2/": dial tcp: lookup x on 10.0.0.1:53: no such host', UNREACHABLE),
        (500, 'Get "https://x/v2/": net/http: TLS handshake timeout', UNREACHABLE),
        (500, 'Get "https://x/v2/": x509: certificate signed by unknown authority', UNREACHABLE),
        (500, 'Get "http://127.0.0.1:5000/v2/": EOF', UNREACHABLE),
        (500, "received unexpected HTTP status: 503 Service Unavailable", UNREACHABLE),
        (500, "unexpected status from HEAD request to http://x: 500 Internal Server Error", UNREACHABLE),
        (429, "toomanyrequests: ", BUSY),
        (500, "error parsing HTTP 429 response body: unexpected end of JSON input", BUSY),
        (500, "unexpected status from HEAD request to http://x: 429 Too Many Requests", BUSY),
        # inside a stream
        (0, "manifest unknown: manifest unknown", MISSING),
        (0, "no matching manifest for linux/s390x in the manifest list entries", MISSING),
        (0, "unexpected EOF", UNREACHABLE),
        (0, "filesystem layer verification failed for digest sha256:0", (EngineError, Kind.UNKNOWN)),
        (0, "write /var/lib/docker/x: no space left on device", (EngineError, Kind.UNKNOWN)),
    ],
)
def test_what_a_failure_means(status: int, message: str, expected: tuple[type[Exception], Kind]) -> None:
    error = pull_failure(message, REF, status)
    assert (type(error), error.kind) == expected
    assert str(error).endswith(message)


def test_a_name_is_no_reason() -> None:
    reference = "denied:5000/x509:/unauthorized:1"
    error = pull_failure(f'Get "https://denied:5000/v2/": {reference}: something new', reference)
    assert (type(error), error.kind) == (EngineError, Kind.UNKNOWN)


@pytest.mark.parametrize(
    ("reference", "name", "tag"),
    [
        ("busybox", "busybox", "latest"),
        ("busybox:1", "busybox", "1"),
        ("host:5000/a/b", "host:5000/a/b", "latest"),
        ("host:5000/a/b:2", "host:5000/a/b", "2"),
        ("host:5000/a@sha256:1", "host:5000/a", "sha256:1"),
        ("a:tag@sha256:1", "a", "sha256:1"),
    ],
)
def test_one_image_is_asked_for(reference: str, name: str, tag: str) -> None:
    assert pull_query(reference) == {"fromImage": name, "tag": tag}


@pytest.mark.parametrize(
    ("auth", "fields"),
    [
        (RegistryAuth(username="u", password="pä?>"), {"username": "u", "password": "pä?>"}),
        (RegistryAuth(server="s", identity_token="i"), {"serveraddress": "s", "identitytoken": "i"}),
        (RegistryAuth(registry_token="r"), {"registrytoken": "r"}),
        (RegistryAuth(), {}),
    ],
)
def test_credentials(auth: RegistryAuth, fields: dict[str, str]) -> None:
    header = auth_header(auth)["X-Registry-Auth"]
    assert not {"+", "/"} & set(header), "not the alphabet for URLs"
    assert json.loads(base64.urlsafe_b64decode(header)) == fields


def test_progress() -> None:
    line = {"id": "abc", "status": "Downloading", "progressDetail": {"current": 5, "total": 9}, "progress": "[=>]"}
    progress = progress_from(line)
    assert (progress.layer, progress.stage, progress.current, progress.total) == ("abc", "Downloading", 5, 9)
    bare = progress_from({"status": "Pull complete", "progressDetail": {}})
    assert (bare.layer, bare.stage, bare.current, bare.total) == ("", "Pull complete", 0, 0)
