"""Pulling: the request, the progress in its answer, and what kind of failure a failed pull is.

This is the one place of crishim that reads a failure's text: the engine answers every failure of a registry with status
500 or inside a stream whose status was 200, so that nothing else tells them apart (docs/decisions/pull-errors.md).
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp

from crishim.engine.docker.errors import KIND_OF_STATUS
from crishim.engine.docker.ndjson import JsonLines
from crishim.engine.docker.references import split_reference
from crishim.engine.values import PullProgress, RegistryAuth
from crishim.errors import CRIError, EngineError, ImageNotFound, InvalidArgument, Kind, RegistryUnavailable

_NOT_FOUND = ("manifest unknown", "name unknown", "no matching manifest", "repository does not exist", ": not found")
_DENIED = (
    *("unauthorized:", "authentication required", "no basic auth credentials", "incorrect username or password"),
    *("access denied", "denied:", "insufficient_scope", "401 Unauthorized", "403 Forbidden"),
    *("HTTP 401 response", "HTTP 403 response"),
)
_TOO_MANY = ("toomanyrequests", "429 Too Many Requests", "HTTP 429 response")
_UNREACHABLE = (
    *("connection refused", "connection reset", "no such host", "i/o timeout", "TLS handshake timeout", ": EOF"),
    *("network is unreachable", "no route to host", "context deadline exceeded", "Client.Timeout exceeded"),
    *(
        "server misbehaving",
        "failure in name resolution",
        "x509:",
        "tls: ",
        "server gave HTTP response to HTTPS client",
    ),
    *("unexpected HTTP status: 5", "unexpected status code 5", "unexpected status from", "500 Internal Server Error"),
    *("502 Bad Gateway", "503 Service Unavailable", "504 Gateway", "unexpected EOF", "broken pipe"),
    *("connection broken", "HTTP 50"),
)
"""The words of Go's network stack and of the registry client, for what a later try can mend."""


def pull_query(reference: str) -> dict[str, str]:
    """Parameters for one image. Without a tag the engine would pull all of them, so `latest` is said."""
    name, tag, digest = split_reference(reference)
    return {"fromImage": name, "tag": digest or tag or "latest"}


def auth_header(auth: RegistryAuth) -> dict[str, str]:
    """The credentials in `X-Registry-Auth`: URL-safe base64 of JSON. Only what is set goes in."""
    fields = {
        "username": auth.username,
        "password": auth.password,
        "serveraddress": auth.server,
        "identitytoken": auth.identity_token,
        "registrytoken": auth.registry_token,
    }
    body = json.dumps({name: value for name, value in fields.items() if value})
    return {"X-Registry-Auth": base64.urlsafe_b64encode(body.encode()).decode("ascii")}


def read_progress(response: aiohttp.ClientResponse, reference: str) -> AsyncIterator[PullProgress]:
    """Signs of life until the engine is done; an error in the stream is raised as `pull_failure` says."""

    def read(data: Mapping[str, Any]) -> PullProgress:
        detail = data.get("errorDetail") or {}
        message = detail.get("message") or data.get("error")
        if message:
            raise pull_failure(str(message), reference, int(detail.get("code") or 0))
        return progress_from(data)

    return JsonLines(response, f"pull of {reference}", read)


def progress_from(data: Mapping[str, Any]) -> PullProgress:
    """The sign of life in one line."""
    detail = data.get("progressDetail") or {}
    return PullProgress(
        layer=str(data.get("id", "")),
        stage=str(data.get("status", "")),
        current=int(detail.get("current") or 0),
        total=int(detail.get("total") or 0),
    )


def pull_failure(message: str, reference: str, status: int = 0) -> CRIError:
    """What a refusal of a pull means. `status` decides where it says something (500 does not), else the text."""
    if status == 404:
        return ImageNotFound(message, image=reference)
    if status == 400:
        return InvalidArgument(message, image=reference)
    if status and status not in (200, 500) and status in KIND_OF_STATUS:
        kind = Kind.PERMISSION_DENIED if status == 401 else KIND_OF_STATUS[status]
        return EngineError(message, kind=kind, image=reference)
    # so that no part of a name is taken for a reason: a registry may be called `denied:5000`
    text = message.replace(reference, "").replace(reference.split("/")[0], "")
    if any(words in text for words in _TOO_MANY):
        return EngineError(message, kind=Kind.RESOURCE_EXHAUSTED, image=reference)
    if any(words in text for words in _DENIED):
        return EngineError(message, kind=Kind.PERMISSION_DENIED, image=reference)
    if any(words in text for words in _UNREACHABLE):
        return RegistryUnavailable(message, image=reference)
    if any(words in text for words in _NOT_FOUND):
        return ImageNotFound(message, image=reference)
    return EngineError(message, kind=Kind.UNKNOWN, image=reference)
