"""From what the HTTP client says to the errors of crishim: the one table of status codes, the one translating guard."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from aiodocker.exceptions import DockerError
from aiohttp.client_exceptions import UnixClientConnectorError

from crishim.errors import EngineConflict, EngineError, EngineNotFound, EngineTimeout, EngineUnavailable, Kind

KIND_OF_STATUS: Mapping[int, Kind] = {
    400: Kind.INVALID_ARGUMENT,
    401: Kind.UNAUTHENTICATED,
    403: Kind.PERMISSION_DENIED,
    404: Kind.NOT_FOUND,
    409: Kind.FAILED_PRECONDITION,
    429: Kind.RESOURCE_EXHAUSTED,
    500: Kind.INTERNAL,
    501: Kind.UNIMPLEMENTED,
    503: Kind.UNAVAILABLE,
}
"""What an engine's status means; any other is UNKNOWN."""

_NO_CONNECTION = 900
"""The status that aiodocker makes up when there was no answer at all."""


def refusal(status: int, message: str, **ids: str) -> EngineError:
    """The error for an answer of this status, with the engine's own words."""
    text = message.strip() or f"the engine answered with status {status} and no message"
    leaf = {404: EngineNotFound, 409: EngineConflict}.get(status, EngineError)
    return leaf(text, kind=KIND_OF_STATUS.get(status, Kind.UNKNOWN), **ids)


@asynccontextmanager
async def guard(what: str, limit: float | None, **ids: str) -> AsyncIterator[None]:
    """Give the calls inside `limit` seconds together, and let only errors of crishim out.

    `what` names the call in messages, such as `inspect of a container`.
    """
    try:
        async with asyncio.timeout(limit):
            yield
    except TimeoutError as error:
        raise EngineTimeout(f"{what}: no answer from the engine within {limit} s", **ids) from error
    except DockerError as error:
        if error.status == _NO_CONNECTION:
            raise broken_off(what, error.__context__ or error, **ids) from error
        raise refusal(error.status, error.message, **ids) from error
    except (aiohttp.ClientError, OSError) as error:
        raise broken_off(what, error, **ids) from error
    except (ValueError, KeyError, TypeError) as error:  # the client's ways to meet an answer that is not the API's
        raise EngineError(
            f"{what}: the engine's answer is not understood: {error!r}", kind=Kind.INTERNAL, **ids
        ) from error


def broken_off(what: str, cause: BaseException, **ids: str) -> EngineUnavailable:
    """The error for a connection that could not be made or that broke, in words for people, not the HTTP client's."""
    return EngineUnavailable(f"{what}: no connection to the engine: {_reason(cause)}", **ids)


def _reason(cause: BaseException) -> str:
    if isinstance(cause, UnixClientConnectorError):
        return f"{cause.path}: {cause.strerror or 'it cannot be connected to'}"
    if isinstance(cause, OSError) and cause.errno:  # of which the client's own are
        return os.strerror(cause.errno)
    for kind, words in _WORDS.items():
        if isinstance(cause, kind):
            return words
    return f"it failed with {type(cause).__name__}"


_WORDS: Mapping[type[Exception], str] = {
    aiohttp.ServerDisconnectedError: "it was closed before the answer",
    aiohttp.ClientPayloadError: "it broke off in the middle of the answer",
    aiohttp.ClientResponseError: "what came is no HTTP",
    aiohttp.ClientConnectionError: "it was closed",
    ConnectionError: "it was closed",
}
"""By the client's errors, the more special ones first."""
