from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest

from crishim import log


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    """set_up changes the process's logging; leave it as pytest had it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for package in ("crishim", "cni"):
        logging.getLogger(package).setLevel(logging.NOTSET)


def logged(
    form: Literal["text", "json"], message: str, ids: dict[str, str] | None = None, *, fail: bool = False
) -> str:
    stream = io.StringIO()
    log.set_up("info", form, stream)
    logger = logging.getLogger("crishim.room")
    try:
        if fail:
            raise KeyError("why")
        logger.warning(message, extra={"ids": ids} if ids else None)
    except KeyError:
        logger.exception(message)
    return stream.getvalue()


def test_text_has_time_level_room_message_and_ids() -> None:
    line = logged("text", "went wrong", {"sandbox": "5a", "container": "c0"})
    time, level, rest = line.split(" ", 2)
    assert time.endswith("Z")
    assert (level, rest) == ("WARNING", "room: went wrong sandbox=5a container=c0\n")


def test_a_text_cannot_forge_a_line_or_steer_a_terminal() -> None:
    line = logged("text", "a\nb\x1b[2Jc\udce9", {"pod": "x\ny"})
    assert line.endswith("room: a\\nb\\x1b[2Jc\\udce9 pod=x\\ny\n")
    assert line.count("\n") == 1


def test_a_traceback_follows_its_line() -> None:
    lines = logged("text", "failed", fail=True).splitlines()
    assert lines[0].endswith("ERROR room: failed")
    assert lines[1].startswith("Traceback")
    assert lines[-1] == "KeyError: 'why'"


def test_json_is_one_object_per_line() -> None:
    text = logged("json", "went\nwrong", {"sandbox": "5a"}) + logged("json", "failed", fail=True)
    first, second = (json.loads(line) for line in text.splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {"level": "warning", "logger": "crishim.room", "message": "went\nwrong", "sandbox": "5a"}
    assert second["level"] == "error"
    assert "KeyError: 'why'" in second["traceback"]


def test_levels_are_ours_and_other_libraries_only_warn() -> None:
    stream = io.StringIO()
    log.set_up("debug", "text", stream)
    logging.getLogger("crishim.x").debug("ours")
    logging.getLogger("cni").debug("ours, too")
    logging.getLogger("asyncio").info("theirs")
    logging.getLogger("asyncio").warning("their warning")
    assert [line.split(": ", 1)[1] for line in stream.getvalue().splitlines()] == ["ours", "ours, too", "their warning"]
