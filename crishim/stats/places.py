"""Where a container's cgroup lies, found by its process: whatever the engine's driver calls it, wherever it put it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from crishim.stats.files import read
from crishim.stats.place import Place
from crishim.stats.values import Vanished

UNIFIED = "unified"
CONTROLLERS = frozenset({"cpu", "cpuacct", "memory", "pids", "blkio", "hugetlb"})
"""Those of version 1 whose figures are read."""


@dataclass(frozen=True)
class Hierarchies:
    """The cgroup file systems that are mounted where crishim runs."""

    mounts: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Controller, or `unified`, to what of the hierarchy is mounted and where."""

    @property
    def version(self) -> int:
        """The version whose controllers count memory and processor time: 1 on hybrid hosts, too."""
        return 1 if {"memory", "cpuacct"} & self.mounts.keys() else 2

    def folder(self, controller: str, path: str) -> str | None:
        """The folder of a cgroup; None where that part of the hierarchy is not mounted."""
        for root, point in self.mounts.get(controller, ()):
            if root == "/":
                return point + path.rstrip("/")
            if path == root or path.startswith(root + "/"):
                return point + path[len(root) :]
        return None


def read_hierarchies(proc: str) -> Hierarchies:
    """From crishim's own mount table (proc(5), mountinfo)."""
    mounts: dict[str, list[tuple[str, str]]] = {}
    for line in read(f"{proc}/self/mountinfo").decode(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options, *_ = *after.split(" ", 2), "", ""
        _, _, _, root, point, *_ = before.split(" ")
        if kind == "cgroup2":
            mounts.setdefault(UNIFIED, []).append((root, unescape(point)))
        elif kind == "cgroup":
            for controller in CONTROLLERS & set(options.split(",")):
                mounts.setdefault(controller, []).append((root, unescape(point)))
    return Hierarchies(mounts)


def unescape(text: str) -> str:
    """A path as mountinfo writes it: blanks and the like in octal."""
    if "\\" not in text:
        return text
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


class Places:
    """Finds cgroups and remembers them while the process is the same."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._hierarchies = Hierarchies()
        self._known: dict[str, tuple[int, Place]] = {}

    def __len__(self) -> int:
        return len(self._known)

    @property
    def version(self) -> int:
        """Version of the cgroups that count."""
        return self._mounted().version

    def _mounted(self) -> Hierarchies:
        if not self._hierarchies.mounts:
            self._hierarchies = read_hierarchies(self._proc)
        return self._hierarchies

    def of(self, object_id: str, pid: int) -> Place:
        """The cgroup of a container whose first process is `pid`. Raises Vanished.

        The container's id is part of its cgroup's name, with either driver: a process without it is a stranger that was
        given the pid after the container ended.
        """
        known = self._known.get(object_id)
        if known is not None and known[0] == pid:
            return known[1]
        place = self._find(object_id, pid)
        self._known[object_id] = (pid, place)
        return place

    def check(self, object_id: str, pid: int) -> None:
        """Raise Vanished unless the process is still the container's; asked after reading of it in /proc."""
        if object_id.encode() not in read(f"{self._proc}/{pid}/cgroup"):
            raise Vanished(object_id)

    def forget(self, object_id: str) -> None:
        """The container is gone, or its cgroup is not where it was."""
        self._known.pop(object_id, None)

    def keep(self, ids: Collection[str]) -> None:
        """Forget all others: those that were found by somebody who came too late."""
        for object_id in [i for i in tuple(self._known) if i not in ids]:
            self.forget(object_id)

    def _find(self, object_id: str, pid: int) -> Place:
        if not pid:
            raise Vanished(object_id)
        hierarchies = self._mounted()
        folders: dict[str, str] = {}
        name = ""
        for line in read(f"{self._proc}/{pid}/cgroup").decode(errors="surrogateescape").splitlines():
            _, controllers, path = line.split(":", 2)
            own = _own_part(path, object_id)
            if own is None:
                continue
            for controller in controllers.split(",") if controllers else (UNIFIED,):
                folder = hierarchies.folder(controller, own)
                if folder is not None:
                    folders[controller] = folder
            if not name or controllers == "memory":
                name = own
        if not folders:
            raise Vanished(object_id)
        return Place(path=name, folders=folders)


def _own_part(path: str, object_id: str) -> str | None:
    """The container's cgroup out of that of its process, which may have made cgroups of its own below."""
    parts = path.split("/")
    for number, part in enumerate(parts):
        if object_id in part:
            return "/".join(parts[: number + 1])
    return None
