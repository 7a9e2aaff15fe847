"""The kernel's figures of one container, whichever version of cgroups there is. For threads: it reads files."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from functools import cached_property
from typing import Protocol

from crishim.stats import cgroup_v1, cgroup_v2
from crishim.stats.net_dev import read_network
from crishim.stats.place import Place
from crishim.stats.places import Places
from crishim.stats.processes import count_processes, look_at_processes
from crishim.stats.values import Detail, Network, Processes, Usage, Vanished


class _Version(Protocol):
    """What both versions of cgroups tell; a module each."""

    def read_counts(self, place: Place, time: int) -> Usage: ...
    def read_usage(self, place: Place, time: int) -> Usage: ...
    def read_cpu(self, place: Place) -> int | None: ...
    def read_detail(self, place: Place) -> Detail: ...


class Kernel:
    """Reads figures. A container is told by its id and its first process's pid; one that has ended raises Vanished."""

    def __init__(self, proc: str = "/proc", now: Callable[[], int] = time.time_ns) -> None:
        """`proc`: where procfs is mounted. `now`: nanoseconds since the epoch."""
        self.proc = proc
        self.now = now
        self._places = Places(proc)

    @cached_property
    def _version(self) -> _Version:
        return cgroup_v1 if self._places.version == 1 else cgroup_v2

    def place(self, object_id: str, pid: int) -> Place:
        """Where its cgroup lies. Raises Vanished."""
        return self._places.of(object_id, pid)

    def usage(self, place: Place) -> Usage:
        """What statistics tell. Raises Vanished."""
        return self._version.read_usage(place, self.now())

    def counts(self, place: Place) -> Usage:
        """The same without pressure, of which there is no sum. Raises Vanished."""
        return self._version.read_counts(place, self.now())

    def cpu(self, place: Place) -> int | None:
        """Nanoseconds of processor time. Raises Vanished."""
        return self._version.read_cpu(place)

    def detail(self, place: Place) -> Detail:
        """What metrics tell beyond; empty where the cgroup is gone."""
        return self._version.read_detail(place)

    def count(self, place: Place) -> int:
        """Processes in it and below."""
        return count_processes(place)

    def processes(self, place: Place, pid: int) -> Processes:
        """The same, and what they have open; `pid` is the first one."""
        return look_at_processes(self.proc, place, pid)

    def network(self, object_id: str, pid: int) -> Network | None:
        """The interfaces in the network namespace of this container; None without any. Raises Vanished."""
        place, path = self.place(object_id, pid), f"{self.proc}/{pid}/net/dev"
        known = path in place.files
        network = read_network(place.files, path, self.now())
        if not known:
            try:
                self._places.check(object_id, pid)  # after opening, as the pid may have become a stranger's before
            except Vanished:
                self.forget(object_id)
                raise
        return network

    def forget(self, object_id: str) -> None:
        """The container is gone."""
        self._places.forget(object_id)

    def keep(self, ids: Collection[str]) -> None:
        """Only these run: of others nothing stays open, even where a reader found one just after it was forgotten."""
        self._places.keep(ids)
