"""Samples of processor time between two askers, so that what was used of late is told even to one who asks rarely.

It runs only while somebody asks, and reads nothing that askers have read themselves a moment ago.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

EVERY = 10.0
"""Seconds between samples: as often as a kubelet asks."""
IDLE = 60.0
"""Seconds after the last asker's call for which samples are taken."""


class Sampler:
    """Calls `sample` every now and then while somebody asks, and it says that there is something to sample."""

    def __init__(self, sample: Callable[[], Awaitable[bool]], *, every: float = EVERY, idle: float = IDLE) -> None:
        self._sample = sample
        self._every = every
        self._idle = idle
        self._last = 0.0
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Sampler {'at work' if self._task else 'at rest'}>"

    @property
    def running(self) -> bool:
        """Whether samples are being taken."""
        return self._task is not None

    def asked(self) -> None:
        """Somebody wants to know: go on, or begin."""
        self._last = asyncio.get_running_loop().time()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="sample processor time")

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                await asyncio.sleep(self._every)
                if loop.time() - self._last > self._idle:
                    return
                if not await self._sample():
                    return
        except Exception:
            log.exception("no samples are taken until somebody asks again")
        finally:
            self._task = None
