"""The engine's event stream: what is asked for, and JSON to EngineEvent."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

import aiohttp

from crishim.engine.docker.ndjson import JsonLines
from crishim.engine.values import EngineEvent

_ACTIONS = (
    *("create", "start", "restart", "die", "oom", "destroy", "pause", "unpause", "rename", "update"),
    *("delete", "import", "load", "pull", "tag", "untag"),
    "reload",
)
"""Those that can change what inspect shows, or what the engine says of itself. Left out are above all the three that
each exec makes: the engine drops events for a listener that is slow for 100 ms, and probes would be most of them."""


_KINDS: tuple[Literal["container", "image", "daemon"], ...] = ("container", "image", "daemon")


def query() -> dict[str, str]:
    """Parameters of a stream that begins now.

    The engine sends the head of its answer before it subscribes the listener. `since` closes that gap: what it kept
    from then on and what comes are handed out under one lock.
    """
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return {
        "since": f"{seconds}.{nanoseconds:09d}",
        "filters": json.dumps({"type": list(_KINDS), "event": list(_ACTIONS)}),
    }


def read_events(response: aiohttp.ClientResponse) -> AsyncIterator[EngineEvent]:
    """Events as they come; ends only by an error, EngineUnavailable when the engine goes away.

    One that is too long to be read is told as such: anybody can give a container labels of any size, and to end the
    stream would mean that the engine is away.
    """
    unread = EngineEvent(kind="unread", action="", id="", time=0, attributes={})
    return JsonLines(response, "events", event_from, endless=True, too_long=unread)


def event_from(data: Mapping[str, Any]) -> EngineEvent | None:
    """The event in a line, None for other kinds of objects."""
    kind = next((kind for kind in _KINDS if kind == data.get("Type")), None)
    if kind is None:
        return None
    actor = data.get("Actor") or {}
    return EngineEvent(
        kind=kind,
        action=str(data.get("Action", "")),
        id=str(actor.get("ID", "")),
        time=int(data.get("timeNano") or int(data.get("time") or 0) * 1_000_000_000),
        attributes=dict(actor.get("Attributes") or {}),
    )
