"""The processes of a cgroup and all cgroups below it, and what they have open."""

from __future__ import annotations

import os
import resource

from crishim.stats.files import Kept, read_if_there
from crishim.stats.place import Place
from crishim.stats.values import Processes

_PROC = "/proc"


def process_folder(place: Place) -> str:
    """The folder that lists processes: any hierarchy does."""
    folders = place.folders
    return folders.get("memory") or folders.get("pids") or folders.get("cpuacct") or folders["unified"]


def pids_of(folder: str, files: Kept | None = None) -> list[bytes]:
    """Processes in this cgroup and below. Those in a threaded cgroup are listed by the one above it.

    `files`: those of this cgroup that are kept open.
    """
    path = f"{folder}/cgroup.procs"
    pids = (files.read_list(path) if files is not None else read_if_there(path) or b"").split()
    if files is not None and not files.has_folders(folder):
        return pids
    try:
        with os.scandir(folder) as entries:
            below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return pids
    for path in below:
        pids += pids_of(path)
    return pids


def count_processes(place: Place) -> int:
    """How many processes there are."""
    return len(pids_of(process_folder(place), place.files))


def look_at_processes(proc: str, place: Place, first: int) -> Processes:
    """Count them and what they have open; `first` is the container's first process. What ends meanwhile is left out."""
    pids = pids_of(process_folder(place), place.files)
    descriptors = sockets = 0
    for pid in pids:
        folder = f"{proc}/{pid.decode()}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        descriptors += len(names)
        sockets += sum(_is_socket(f"{folder}/{name}") for name in names)
    return Processes(len(pids), descriptors, sockets, _open_files_limit(proc, first))


def _is_socket(link: str) -> bool:
    try:
        return os.readlink(link).startswith("socket:")
    except OSError:
        return False


def _open_files_limit(proc: str, pid: int) -> int | None:
    try:
        return resource.prlimit(pid, resource.RLIMIT_NOFILE)[0] if proc == _PROC else _limit_in(proc, pid)
    except ProcessLookupError:
        return None
    except PermissionError:  # another user's process, and no CAP_SYS_RESOURCE
        return _limit_in(proc, pid)


def _limit_in(proc: str, pid: int) -> int | None:
    for line in (read_if_there(f"{proc}/{pid}/limits") or b"").splitlines():
        if line.startswith(b"Max open files"):
            soft = line.split()[3]
            return -1 if soft == b"unlimited" else int(soft)
    return None
