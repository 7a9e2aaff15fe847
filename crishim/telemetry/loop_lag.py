"""How late the event loop is: whatever blocks it makes every caller wait as long."""

from __future__ import annotations

import asyncio

from crishim.telemetry.durations import Durations

EVERY = 0.5
"""Seconds between two looks: often enough to meet what blocks for half a second, and next to no work."""


class LoopLag:
    """Notes how much later than planned a timer of the running loop comes."""

    def __init__(self) -> None:
        self.lags = Durations()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def start(self) -> None:
        """Look from now on."""
        self._loop = asyncio.get_running_loop()
        self._plan(self._loop)

    def stop(self) -> None:
        """Look no longer."""
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _plan(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + EVERY
        self._timer = loop.call_at(self._due, self._look)

    def _look(self) -> None:
        if self._loop is not None:
            self.lags.note(max(0.0, self._loop.time() - self._due))
            self._plan(self._loop)
