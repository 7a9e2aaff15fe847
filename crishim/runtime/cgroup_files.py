"""Limits of a running container that are files of its cgroup, and of which the engine knows nothing.

They are written as they are asked (CRI `LinuxContainerResources.unified`, `hugepage_limits`), where the process of the
container says that its cgroup is.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

from crishim.engine.values import EngineContainer
from crishim.errors import InvalidArgument, UnsupportedField
from crishim.model import LinuxContainerResources

Files = Mapping[Path, tuple[str, str]]
"""File to its content, and to the field that asks for it."""

_HUGETLB = "hugetlb"


def wanted(
    live: EngineContainer,
    asked: LinuxContainerResources,
    version: int,
    *,
    proc: Path = Path("/proc"),
    root: Path = Path("/sys/fs/cgroup"),
) -> dict[Path, tuple[str, str]]:
    """The files that a request wants written. `version`: of the cgroups. A container that has ended has none."""
    files: dict[Path, tuple[str, str]] = {}
    limits = [limit for limit in asked.hugepage_limits if limit.limit]
    if limits and (folder := _folder(live, _HUGETLB if version == 1 else "", proc, root)) is not None:
        name = "limit_in_bytes" if version == 1 else "max"
        for limit in limits:
            files[folder / f"{_HUGETLB}.{limit.page_size}.{name}"] = str(limit.limit), "linux.hugepage_limits"
    if asked.unified and (folder := _folder(live, "", proc, root)) is not None:
        for key, value in asked.unified.items():
            files[folder / key] = value, f"linux.unified[{key}]"
    return files


def _folder(live: EngineContainer, controller: str, proc: Path, root: Path) -> Path | None:
    """The container's cgroup: of version 2, or that of a controller of version 1."""
    try:
        lines = (proc / str(live.pid) / "cgroup").read_text(errors="surrogateescape").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        parts = path.split("/")
        # The process may have made cgroups of its own below; one without the id is a stranger with the same pid.
        own = next((number for number, part in enumerate(parts) if live.id in part), None)
        if own is not None and controller in controllers.split(","):
            return root / controller / "/".join(parts[: own + 1]).lstrip("/")
    return None


def read(files: Files) -> dict[Path, tuple[str, str]]:
    """What is in these files now, to be written back. Raises UnsupportedField where there is none."""
    found = {}
    for path, (_, field) in files.items():
        try:
            found[path] = path.read_text(), field
        except OSError as error:
            raise UnsupportedField(f"the container's cgroup: {path.name}: {error.strerror}", field=field) from error
    return found


def write(files: Files) -> None:
    """Write them, line by line, as the kernel takes files with a line for each device. Raises InvalidArgument for what
    it does not take, UnsupportedField where there is no such file."""
    for path, (content, field) in files.items():
        try:
            for line in content.splitlines():
                with path.open("r+") as file:  # never made anew
                    file.write(line)
        except OSError as error:
            words = f"{content!r}: {path.name}: {error.strerror}"
            if error.errno in (errno.EINVAL, errno.ERANGE, errno.ENODEV):
                raise InvalidArgument(words, field=field) from error
            raise UnsupportedField(words, field=field) from error
