"""Sizes of the writable layers, counted in the background, within a budget, and only while somebody asks.

Who asks is given what was counted last, with its time. A layer that nobody has counted yet is looked into at once, a
little: a new one is small, and of a large one the answer says what is there at least.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable

from crishim.runtime.objects import Container
from crishim.stats.layer import Walk, find_layer
from crishim.stats.values import Layer

log = logging.getLogger(__name__)

FRESH = 60 * 10**9
"""Nanoseconds for which a count is good enough."""
IDLE = 60.0
"""Seconds without anybody asking after which counting ends."""
_AT_ONCE = 500
"""Entries of an unknown layer that are looked at while somebody waits: less than a millisecond or two."""
_SLICE = 2000
"""Entries that are looked at between two pauses."""
_EACH = 20
"""What a layer costs by itself, in entries."""
_ROUND = 1.0
"""Seconds between two looks for what is due."""


class Layers:
    """What is known of writable layers. `look` belongs to threads, the rest to the event loop."""

    def __init__(
        self,
        budget: float,
        *,
        proc: str = "/proc",
        now: Callable[[], int] = time.time_ns,
        fresh: int = FRESH,
    ) -> None:
        """`budget`: percent of one core that counting may take, 0 for none at all. `fresh` in nanoseconds."""
        self._budget = budget
        self._proc = proc
        self._now = now
        self._fresh = fresh
        self._known: dict[str, Layer] = {}
        self._folders: dict[str, str] = {}
        self._wanted: dict[str, Container] = {}
        self._asked = 0.0
        self._counting: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Layers {len(self._known)} known, {'counting' if self._counting else 'at rest'}>"

    def look(self, container: Container) -> Layer:
        """What was counted last; of an unknown layer what a short look tells. Nothing where no layer is to be found."""
        if (known := self._known.get(container.id)) is not None:
            return known
        if (folder := self._find(container)) is None:
            return Layer(self._now())
        walk = Walk(folder)
        walk.go_on(_AT_ONCE)
        self._known[container.id] = layer = walk.layer(self._now())
        return layer

    def _find(self, container: Container) -> str | None:
        folder = self._folders.get(container.id)
        if folder is None:
            folder = find_layer(self._proc, container.live.pid if container.running else 0, container.live.merged_dir)
            if folder is not None:
                self._folders[container.id] = folder
        return folder

    def want(self, containers: Iterable[Container]) -> None:
        """Somebody has asked for these: keep their figures fresh for a while."""
        self._asked = asyncio.get_running_loop().time()
        for container in containers:
            self._wanted[container.id] = container
        if self._budget and self._wanted and self._counting is None:
            self._counting = asyncio.create_task(self._count(), name="count writable layers")

    def forget(self, container_id: str) -> None:
        """The container is gone."""
        for known in (self._known, self._folders, self._wanted):
            known.pop(container_id, None)

    def keep(self, ids: Collection[str]) -> None:
        """Forget all others: those that were noted by a look which came too late."""
        for container_id in [i for i in (*self._known, *self._folders) if i not in ids]:
            self.forget(container_id)

    async def close(self) -> None:
        """Stop counting."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait((self._counting,))

    async def _count(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._wanted and loop.time() - self._asked < IDLE:
                await self._recount(self._due())
                await asyncio.sleep(_ROUND)
        except Exception:
            log.exception("writable layers are not counted until somebody asks again")
        finally:
            self._wanted.clear()
            self._counting = None

    def _due(self) -> list[Container]:
        """Those whose count is old or was never finished; the oldest first."""
        now = self._now()
        due = [(known.time, i) for i in self._wanted if (known := self._known.get(i)) and self._is_due(known, now)]
        return [self._wanted[i] for _, i in sorted(due)]

    def _is_due(self, known: Layer, now: int) -> bool:
        return not known.complete or now - known.time >= self._fresh

    async def _recount(self, containers: Iterable[Container]) -> None:
        """Most layers are small, and several fit between two pauses."""
        walks = deque((container.id, Walk(self._folders.get(container.id, ""))) for container in containers)
        while walks:
            began = time.monotonic()
            done = await asyncio.to_thread(_walk_on, [walk for _, walk in walks])
            now = self._now()
            for _ in range(done):
                container_id, walk = walks.popleft()
                if not walk.inodes:
                    self._wanted.pop(container_id, None)  # gone, or nowhere to be found: until it is asked for again
                elif container_id in self._wanted:
                    self._known[container_id] = walk.layer(now)
            await asyncio.sleep((time.monotonic() - began) * (100 - self._budget) / self._budget)


def _walk_on(walks: list[Walk]) -> int:
    """Go on with the first of these, and with those behind it as far as a slice goes; how many are done."""
    left = _SLICE
    for number, walk in enumerate(walks):
        before = walk.inodes
        if not walk.go_on(left):
            return number
        left -= walk.inodes - before + _EACH
        if left <= 0:
            return number + 1
    return len(walks)
