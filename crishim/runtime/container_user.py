"""Who runs in a container (CRI `LinuxContainerUser`): the engine does not know, the kernel does."""

from __future__ import annotations

from pathlib import Path

from crishim.runtime.objects import ContainerUser


def read_user(pid: int, proc: Path = Path("/proc")) -> ContainerUser | None:
    """Who a process is: effective ids and supplemental groups as the kernel says; None if it has ended."""
    try:
        lines = (proc / str(pid) / "status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
    if not {"Uid", "Gid", "Groups"} <= fields.keys():
        return None
    groups = tuple(int(group) for group in fields["Groups"])
    return ContainerUser(uid=int(fields["Uid"][1]), gid=int(fields["Gid"][1]), groups=groups)
