"""Who runs in a container (CRI `LinuxContainerUser`): the engine does not know, the kernel does."""

from __future__ import annotations

from pathlib import Path

from crishim.runtime.objects import ContainerUser


def read_user(pid: int, proc: Path = Path("/proc")) -> ContainerUser | None:
    """Who a process is: effective ids and supplemental groups as the kernel says; None if it has ended."""
    process = proc / str(pid)
    try:
        lines = (process / "status").read_text().splitlines()
        uids, gids = ((process / name).read_text() for name in ("uid_map", "gid_map"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
    if not {"Uid", "Gid", "Groups"} <= fields.keys():
        return None
    groups = tuple(_inside(int(group), gids) for group in fields["Groups"])
    return ContainerUser(
        uid=_inside(int(fields["Uid"][1]), uids), gid=_inside(int(fields["Gid"][1]), gids), groups=groups
    )


def _inside(number: int, mappings: str) -> int:
    """What an id is called in the process's user namespace (user_namespaces(7)); one that has no name there stays."""
    for line in mappings.splitlines():
        inside, outside, length = (int(word) for word in line.split())
        if outside <= number < outside + length:
            return inside + number - outside
    return number
