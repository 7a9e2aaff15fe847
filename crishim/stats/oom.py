"""Whether a container ran out of memory, asked of the kernel: a busy engine can miss it when the cgroup goes at once.

Cgroup version 1 alone: there, a counter (eventfd(2)) can be had that the kernel raises for each time that the memory
ran out, and once more when the cgroup goes, so that what it says outlives the cgroup. Nothing waits for it, nothing is
woken by it; it is read when a container has been killed and the engine does not say why. (Kernel documentation,
admin-guide/cgroup-v1/memory.rst, section 10.)
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from crishim.runtime.objects import Container
from crishim.stats.files import table
from crishim.stats.places import Places
from crishim.stats.values import Vanished

if TYPE_CHECKING:
    from crishim.aiokit.background import Background
    from crishim.runtime.index import Change, Index

log = logging.getLogger(__name__)


class OutOfMemory:
    """Follows the index: a counter for each container that runs under a memory limit."""

    def __init__(self, index: Index, background: Background, *, proc: str = "/proc") -> None:
        """`proc`: where procfs is mounted."""
        self._index = index
        self._background = background
        self._proc = proc
        self._counters: dict[str, tuple[int, int, str]] = {}
        """Container to its first process, the counter, and the file that tells while the cgroup is there."""
        self._unsubscribe: Callable[[], None] = index.subscribe(self._changed)

    def __repr__(self) -> str:
        return f"<OutOfMemory {len(self._counters)} watched>"

    def close(self) -> None:
        """Follow nothing any more."""
        self._unsubscribe()
        for container_id in tuple(self._counters):
            self._forget(container_id)

    def happened(self, container_id: str) -> bool:
        """Whether a process of a container that has just ended was killed for want of memory, as far as is known."""
        known = self._counters.get(container_id)
        if known is None:
            return False
        _, counter, path = known
        try:
            return _kills(path) > 0
        except OSError:
            pass  # the cgroup is gone, which is one of the counts
        try:
            return os.eventfd_read(counter) > 1
        except BlockingIOError:
            return False

    def _changed(self, change: Change) -> None:
        if change.kind != "container":
            return
        before, after = change.before, change.after
        running = after if isinstance(after, Container) and after.running else None
        pid = running.live.pid if running is not None else 0
        if before is not None and before.id in self._counters and self._counters[before.id][0] != pid:
            self._forget(before.id)
        if running is not None and pid and running.live.resources.memory and running.id not in self._counters:
            self._background.start(self._watch(running.id, pid), name=f"watch the memory of {running.id[:13]}")

    async def _watch(self, container_id: str, pid: int) -> None:
        opened = await asyncio.to_thread(_open, self._proc, container_id, pid)
        if opened is None:
            return
        container = self._index.container(container_id)
        if container is None or container.live.pid != pid or container_id in self._counters:
            os.close(opened[0])  # it has ended meanwhile, or was started anew
        else:
            self._counters[container_id] = (pid, *opened)

    def _forget(self, container_id: str) -> None:
        os.close(self._counters.pop(container_id)[1])


def _open(proc: str, container_id: str, pid: int) -> tuple[int, str] | None:
    """A counter and the file to look at; None where there can be none."""
    try:
        folder = Places(proc).of(container_id, pid).folders.get("memory")
    except Vanished:
        return None
    if folder is None:
        return None
    path = f"{folder}/memory.oom_control"
    counter = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    try:
        told = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            control = os.open(f"{folder}/cgroup.event_control", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(control, b"%d %d" % (counter, told))
            finally:
                os.close(control)
        finally:
            os.close(told)
    except OSError as error:
        log.debug("memory of container %s is not watched: %s", container_id[:13], error)
        os.close(counter)
        return None
    return counter, path


def _kills(path: str) -> int:
    with open(path, "rb") as file:
        return int(table(file.read()).get(b"oom_kill", b"0"))
