"""Whether a container ran out of memory, asked of the kernel: a busy engine can miss it when the cgroup goes at once.

Version 1 has counters (eventfd(2)) that the kernel raises for each time that the memory ran out, and once more when the
cgroup goes, so that what one says outlives the cgroup. Nothing waits for it, nothing is woken by it; it is read when a
container has been killed and the engine does not say why. (Kernel documentation, admin-guide/cgroup-v1/memory.rst,
section 10.)

Version 2 has a file, `memory.events`, which goes with the cgroup. The kernel tells when it changes (admin-guide/
cgroup-v2.rst, "Memory Interface Files"), which is long before the cgroup goes: the engine has to notice the end of the
process first. So it is read then. It never changes for a container that keeps within its memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from crishim.logs.inotify import Inotify
from crishim.runtime.objects import Container
from crishim.stats.files import table
from crishim.stats.places import UNIFIED, Places
from crishim.stats.values import Vanished

if TYPE_CHECKING:
    from crishim.aiokit.background import Background
    from crishim.runtime.index import Change, Index

log = logging.getLogger(__name__)


class Witness(Protocol):
    """What one container's kills are known by."""

    def starved(self) -> bool:
        """Whether a process of the container was killed for want of memory, as far as is known."""

    def close(self) -> None:
        """Watch no more."""


class Counted:
    """Version 1: the counter, and the file that tells while the cgroup is there."""

    def __init__(self, counter: int, path: str) -> None:
        self._counter = counter
        self._path = path

    def starved(self) -> bool:
        try:
            return _kills(self._path) > 0
        except OSError:
            pass  # the cgroup is gone, which is one of the counts
        try:
            return os.eventfd_read(self._counter) > 1
        except BlockingIOError:
            return False

    def close(self) -> None:
        os.close(self._counter)


class Events:
    """Version 2: the file, and what it said when it changed."""

    def __init__(self, path: str, notices: Notices) -> None:
        """Raises OSError when the cgroup is gone already."""
        self._path = path
        self._notices = notices
        self._kills = 0
        self._number = notices.add(path, self.look)
        self.look()

    def look(self) -> None:
        """Read the file, if it is still there. It is the kernel's, and never waits for a disk."""
        with contextlib.suppress(OSError):
            self._kills = _kills(self._path)

    def starved(self) -> bool:
        self.look()
        return self._kills > 0

    def close(self) -> None:
        self._notices.remove(self._number)


class Notices:
    """Calls back when one of several files changes. Costs a descriptor from the first file on."""

    def __init__(self) -> None:
        self._queue: Inotify | None = None
        self._told: dict[int, Callable[[], None]] = {}

    def add(self, path: str, changed: Callable[[], None]) -> int:
        """The watch's number. OSError: no such file, or no more watches."""
        if self._queue is None:
            self._queue = Inotify()
            asyncio.get_running_loop().add_reader(self._queue.fd, self._read)
        number = self._queue.add_file(path)
        self._told[number] = changed
        return number

    def remove(self, number: int) -> None:
        """End a watch; one that ended with its file is no error."""
        if self._told.pop(number, None) is not None and self._queue is not None:
            self._queue.remove(number)

    def _read(self) -> None:
        assert self._queue is not None, "read while it is open"
        happened = self._queue.read()
        for number, changed in tuple(self._told.items()):
            if number in happened or -1 in happened:  # -1: some were lost
                changed()

    def close(self) -> None:
        """All watches end."""
        self._told.clear()
        if self._queue is not None:
            asyncio.get_running_loop().remove_reader(self._queue.fd)
            self._queue.close()
            self._queue = None


class OutOfMemory:
    """Follows the index: a witness for each container that runs under a memory limit."""

    def __init__(self, index: Index, background: Background, *, proc: str = "/proc") -> None:
        """`proc`: where procfs is mounted."""
        self._index = index
        self._background = background
        self._proc = proc
        self._notices = Notices()
        self._witnesses: dict[str, tuple[int, Witness]] = {}
        """Container to its first process and its witness."""
        self._closed = False
        self._unsubscribe: Callable[[], None] = index.subscribe(self._changed)

    def __repr__(self) -> str:
        return f"<OutOfMemory {len(self._witnesses)} watched>"

    def close(self) -> None:
        """Follow nothing any more."""
        self._closed = True
        self._unsubscribe()
        for container_id in tuple(self._witnesses):
            self._forget(container_id)
        self._notices.close()

    def happened(self, container_id: str) -> bool:
        """Whether a process of a container that has just ended was killed for want of memory, as far as is known."""
        known = self._witnesses.get(container_id)
        return known is not None and known[1].starved()

    def _changed(self, change: Change) -> None:
        if change.kind != "container":
            return
        before, after = change.before, change.after
        running = after if isinstance(after, Container) and after.running else None
        pid = running.live.pid if running is not None else 0
        if before is not None and before.id in self._witnesses and self._witnesses[before.id][0] != pid:
            self._forget(before.id)
        if running is not None and pid and running.live.resources.memory and running.id not in self._witnesses:
            self._background.start(self._watch(running.id, pid), name=f"watch the memory of {running.id[:13]}")

    async def _watch(self, container_id: str, pid: int) -> None:
        opened = await asyncio.to_thread(_open, self._proc, container_id, pid)
        if opened is None:
            return
        container = self._index.container(container_id)
        if self._closed or container is None or container.live.pid != pid or container_id in self._witnesses:
            if not isinstance(opened, str):
                opened.close()  # it has ended meanwhile, or was started anew
            return
        try:
            witness = Events(opened, self._notices) if isinstance(opened, str) else opened
        except OSError as error:
            log.debug("memory of container %s is not watched: %s", container_id[:13], error)
        else:
            self._witnesses[container_id] = (pid, witness)

    def _forget(self, container_id: str) -> None:
        self._witnesses.pop(container_id)[1].close()


def _open(proc: str, container_id: str, pid: int) -> Counted | str | None:
    """A counter, or the file to watch; None where there can be neither."""
    try:
        folders = Places(proc).of(container_id, pid).folders
    except Vanished:
        return None
    if "memory" in folders:
        return _count(folders["memory"], container_id)
    return f"{folders[UNIFIED]}/memory.events" if UNIFIED in folders else None


def _count(folder: str, container_id: str) -> Counted | None:
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
    return Counted(counter, path)


def _kills(path: str) -> int:
    with open(path, "rb") as file:
        return int(table(file.read()).get(b"oom_kill", b"0"))
