"""The processes of a cgroup and all cgroups below it, and what they have open."""

from __future__ import annotations

import os

from crishim.stats.files import read_if_there
from crishim.stats.place import Place
from crishim.stats.values import Processes


def process_folder(place: Place) -> str:
    """The folder that lists processes: any hierarchy does."""
    folders = place.folders
    return folders.get("memory") or folders.get("pids") or folders.get("cpuacct") or folders["unified"]


def pids_of(folder: str) -> list[bytes]:
    """Processes in this cgroup and below. Those in a threaded cgroup are listed by the one above it."""
    pids = (read_if_there(f"{folder}/cgroup.procs") or b"").split()
    try:
        if os.stat(folder).st_nlink > 2:  # kernfs counts subfolders
            with os.scandir(folder) as entries:
                below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
            for path in below:
                pids += pids_of(path)
    except FileNotFoundError:
        pass
    return pids


def count_processes(place: Place) -> int:
    """How many processes there are."""
    return len(pids_of(process_folder(place)))


def look_at_processes(proc: str, place: Place, first: int) -> Processes:
    """Count them and what they have open; `first` is the container's first process. What ends meanwhile is left out."""
    pids = pids_of(process_folder(place))
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
    for line in (read_if_there(f"{proc}/{pid}/limits") or b"").splitlines():
        if line.startswith(b"Max open files"):
            soft = line.split()[3]
            return -1 if soft == b"unlimited" else int(soft)
    return None
