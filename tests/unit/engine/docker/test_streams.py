"""Lines of JSON out of a stream, however it is cut."""

from __future__ import annotations

import json
from typing import Any, cast

import aiohttp
import pytest

from crishim.engine.docker import ndjson
from crishim.engine.docker.events import event_from, query, read_events
from crishim.engine.docker.ndjson import JsonLines
from crishim.engine.docker.pull import read_progress
from crishim.errors import EngineError, EngineUnavailable, ImageNotFound

OBJECTS: list[dict[str, Any]] = [{"a": 1}, {"b": "ä\\n"}, {}, {"c": [{"d": None}]}]
TEXT = "".join(json.dumps(o, ensure_ascii=False) + "\r\n" for o in OBJECTS).encode() + b"\n\n"


class Answer:
    """A response whose body comes in these pieces, and then breaks off or ends."""

    def __init__(self, *pieces: bytes, breaks: bool = False) -> None:
        self.content = self
        self._pieces = list(pieces)
        self._breaks = breaks

    async def readany(self) -> bytes:
        if self._pieces:
            return self._pieces.pop(0)
        if self._breaks:
            raise aiohttp.ClientPayloadError("cut")
        return b""


def response(*pieces: bytes, breaks: bool = False) -> aiohttp.ClientResponse:
    return cast("aiohttp.ClientResponse", Answer(*pieces, breaks=breaks))


async def objects(*pieces: bytes) -> list[dict[str, Any]]:
    return [line async for line in JsonLines(response(*pieces), "test", lambda line: line)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_any_cut(size: int) -> None:
    assert await objects(*(TEXT[i : i + size] for i in range(0, len(TEXT), size))) == OBJECTS


async def test_last_line_without_its_mark() -> None:
    assert await objects(b'{"a": 1}\n{"b"', b": 2}") == [{"a": 1}, {"b": 2}]
    assert await objects() == []


async def test_none_is_passed_over() -> None:
    lines = JsonLines(response(TEXT), "test", lambda line: line.get("a"))
    assert [line async for line in lines] == [1]


@pytest.mark.parametrize("text", [b"[1]\n", b"oops\n", b'{"a": \n', b"\xff\n", b'{"a": 1'])
async def test_what_is_no_line_of_json(text: bytes) -> None:
    with pytest.raises(EngineError):
        await objects(text)


async def test_endless_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson, "LINE_LIMIT", 100)
    with pytest.raises(EngineError, match="100 bytes"):
        await objects(*(b"x" * 30 for _ in range(10)))


@pytest.mark.parametrize("size", [1, 7, 30, 1000])
async def test_line_too_long_is_told_and_the_next_one_read(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(ndjson, "LINE_LIMIT", 100)
    text = b'{"a": 1}\n{"a": "' + b"x" * 1200 + b'"}\n{"a": 2}\n' + b"y" * 1200
    pieces = (text[i : i + size] for i in range(0, len(text), size))
    lines = JsonLines(response(*pieces), "test", lambda line: line, too_long={"too": "long"})
    assert [line async for line in lines] == [{"a": 1}, {"too": "long"}, {"a": 2}, {"too": "long"}]


async def test_event_too_long_is_one_that_was_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's labels can have any size; the stream goes on."""
    monkeypatch.setattr(ndjson, "LINE_LIMIT", 100)
    line = json.dumps({"Type": "container", "Action": "die", "Actor": {"ID": "1"}}).encode() + b"\n"
    events = read_events(response(b"x" * 200, b"x\n" + line))
    assert [(await anext(events)).kind, (await anext(events)).kind] == ["unread", "container"]


async def test_broken_off() -> None:
    lines = JsonLines(response(b'{"a": 1}\n{"b"', breaks=True), "test", lambda line: line)
    assert await anext(lines) == {"a": 1}
    with pytest.raises(EngineUnavailable, match="broke off"):
        await anext(lines)


async def test_events_never_just_stop() -> None:
    line = {"Type": "container", "Action": "die", "Actor": {"ID": "1", "Attributes": {"exitCode": "3"}}, "timeNano": 5}
    other = {"Type": "network", "Action": "connect", "Actor": {"ID": "2"}}
    events = read_events(response(json.dumps(other).encode() + b"\n", json.dumps(line).encode() + b"\n"))
    event = await anext(events)
    assert (event.kind, event.action, event.id, event.time) == ("container", "die", "1", 5)
    assert event.attributes == {"exitCode": "3"}
    with pytest.raises(EngineUnavailable, match="ended"):
        await anext(events)


def test_event_of_an_engine_that_tells_seconds_only() -> None:
    event = event_from({"Type": "image", "Action": "pull", "Actor": {"ID": "x:1"}, "time": 7})
    assert event is not None
    assert (event.kind, event.time, event.attributes) == ("image", 7_000_000_000, {})


def test_events_of_execs_are_not_asked_for() -> None:
    filters = json.loads(query()["filters"])
    assert filters["type"] == ["container", "image", "daemon"]
    assert {"create", "start", "die", "destroy", "oom"} <= set(filters["event"])
    assert not [action for action in filters["event"] if action.startswith("exec")]
    assert float(query()["since"]) > 1_700_000_000


@pytest.mark.parametrize(
    "line",
    [
        {"errorDetail": {"message": "manifest unknown"}, "error": "manifest unknown"},
        {"error": "manifest unknown"},
        {"errorDetail": {"message": "whatever", "code": 404}},
    ],
)
async def test_error_inside_a_pull(line: dict[str, Any]) -> None:
    progress = read_progress(response(b'{"status": "Pulling"}\n', json.dumps(line).encode()), "a:1")
    assert (await anext(progress)).stage == "Pulling"
    with pytest.raises(ImageNotFound):
        await anext(progress)
