"""Which objects a comparison need not ask for: they are as the engine's list shows them (docs/decisions/comparison.md).

The list tells an object's name and whether it is created, runs, is paused or has ended. That one runs which ran before
does not mean that it is the same run: its first process tells.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping

from crishim.engine.values import ContainerPhase, EngineContainer, ListedContainer
from crishim.runtime.index import Index

ROUND = 20
"""Comparisons within which each object is asked for, whatever the list shows."""
LEAST = 16
"""Objects that are asked for in each comparison at least: on a small node all of them."""

Lives = Callable[[str, int], bool]
"""Whether a process (by its pid) is one of a container (by its id)."""


def lives(container_id: str, pid: int) -> bool:
    """By the process's cgroup, which has the container's id in its name; False where that cannot be told."""
    try:
        with open(f"/proc/{pid}/cgroup", "rb") as file:
            return container_id.encode() in file.read()
    except OSError:
        return False


class Turns:
    """Whose turn it is to be asked for, though nothing shows that it has changed."""

    def __init__(self) -> None:
        self._waiting: dict[str, None] = {}

    def take(self, ids: Iterable[str]) -> set[str]:
        """Those of `ids` whose turn it is; each has one within `ROUND` calls."""
        wanted = dict.fromkeys(ids)
        waiting = [i for i in self._waiting if i in wanted]
        waiting += [i for i in wanted if i not in self._waiting]
        count = max(LEAST, -(-len(waiting) // ROUND))
        self._waiting = dict.fromkeys(itertools.chain(waiting[count:], waiting[:count]))
        return set(waiting[:count])


def last_told(index: Index) -> dict[str, EngineContainer]:
    """What the engine last told of each object that it has told of."""
    told = {c.id: c.live for c in index.containers() if c.seen}
    return told | {s.id: s.live for s in index.sandboxes() if s.live is not None and s.seen}


def find_unchanged(
    listed: Iterable[ListedContainer], told: Mapping[str, EngineContainer], objects: Collection[str], process: Lives
) -> set[str]:
    """Ids of those that are listed as they were last told. `objects`: those of which only their being there counts.

    Reads a file of the kernel for each that runs: belongs to a thread.
    """
    return {row.id for row in listed if row.id in objects or _is_as_told(row, told.get(row.id), process)}


def _is_as_told(row: ListedContainer, live: EngineContainer | None, process: Lives) -> bool:
    if live is None or (row.phase, row.paused) != (live.phase, live.paused) or live.name not in row.names:
        return False
    return row.phase is not ContainerPhase.RUNNING or process(row.id, live.pid)
