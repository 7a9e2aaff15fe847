from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from crishim import app
from crishim.config import Settings
from crishim.images.core import ImageSettings
from crishim.runtime.core import RuntimeSettings
from crishim.streaming.server import StreamingSettings


class FakeServer:
    """Ends when it is told: `calls` under way end by themselves with `release`, `undo` after a cancellation."""

    def __init__(self) -> None:
        self.limits: list[float] = []
        self.release = asyncio.Event()
        self.undone = asyncio.Event()

    async def stop(self, limit: float) -> None:
        self.limits.append(limit)
        if limit == 0:  # like the real one: who has no patience ends the waiting of all
            self.release.set()
        try:
            async with asyncio.timeout(limit):
                await self.release.wait()
        except TimeoutError:
            await self.undone.wait()


async def test_it_ends_as_soon_as_the_calls_have_ended() -> None:
    server = FakeServer()
    server.release.set()
    await asyncio.wait_for(app.stop_serving(server, 60, asyncio.Event()), 5)  # type: ignore[arg-type]
    assert server.limits == [60]


async def test_a_second_request_ends_it_at_once() -> None:
    server, at_once = FakeServer(), asyncio.Event()
    at_once.set()
    await asyncio.wait_for(app.stop_serving(server, 60, at_once), 5)  # type: ignore[arg-type]
    assert server.limits == [60, 0]


async def test_undoing_that_does_not_end_is_left_behind_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(app, "CLOSE_LIMIT", 0.01)
    caplog.set_level(logging.WARNING)
    server = FakeServer()
    await asyncio.wait_for(app.stop_serving(server, 0.01, asyncio.Event()), 5)  # type: ignore[arg-type]
    assert "still undoing" in caplog.text


def test_each_setting_of_the_verbs_and_images_reaches_them() -> None:
    values: dict[str, Any] = {"undo_deadline": 1.0, "log_spool_size": 2 << 20, "log_spool_files": 3, "shm_size": 5000}
    values |= {
        "pids_limit": 6,
        "kill_wait": 7.0,
        "carrier": "pause",
        "sandbox_image": "p:1",
        "sandbox_image_credentials": Path("/c.json"),
        "pull_stall_limit": 8.0,
        "pull_work_limit": 9.0,
    }
    values |= {"address": "127.0.0.1:5", "certificate": Path("/c"), "key": Path("/k"), "client_ca": Path("/a")}
    values |= {"insecure": True, "idle_limit": 10.0, "dead_after": 11.0}
    streamed = StreamingSettings.__dataclass_fields__
    settings = Settings(**{f"streaming_{name}" if name in streamed else name: at for name, at in values.items()})
    runtime, images = app.runtime_settings(settings), app.image_settings(settings)
    for part in (runtime, images, app.streaming_settings(settings)):
        for name in type(part).__dataclass_fields__:
            assert getattr(part, name) == values.pop(name)
    assert values == {}
    assert (runtime, images) != (RuntimeSettings(), ImageSettings())
