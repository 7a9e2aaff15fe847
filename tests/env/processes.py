"""Processes as /proc shows them: in a test world, only the world's."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

PROC = Path("/proc")


def pids() -> list[int]:
    """All processes."""
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def command_line(pid: int) -> str:
    """The command with its arguments, blank between them; empty when it ended or is a kernel thread."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
    return ""


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the third (state) on; empty when it ended.  Rule: proc(5)."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return []


def parent(pid: int) -> int:
    """Its parent; 0 when it ended."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def is_zombie(pid: int) -> bool:
    """Whether it ended and waits to be reaped."""
    return _stat(pid)[:1] == ["Z"]


def stopped(pid: int) -> bool:
    """Whether each of its threads stands still (SIGSTOP), or it ended."""
    for task in (PROC / str(pid)).glob("task/*/stat"):
        with contextlib.suppress(OSError):
            if task.read_text(errors="replace").rpartition(")")[2].split()[0] not in ("T", "Z", "X"):
                return False
    return True


def ancestors(pid: int) -> list[int]:
    """Parent, its parent, and so on."""
    found = []
    while (pid := parent(pid)) > 0:
        found.append(pid)
    return found


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on."""
    children: dict[int, list[int]] = {}
    for other in pids():
        children.setdefault(parent(other), []).append(other)
    found, queue = [], [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def opened(pid: int) -> list[str]:
    """What its descriptors are of, but for those that are closed while this looks; nothing when it ended."""
    found = []
    with contextlib.suppress(OSError):
        for link in (PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(link))
    return found


def kill(pid: int) -> None:
    """SIGKILL; no matter if it ended already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
