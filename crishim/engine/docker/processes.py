"""The host's view of an exec's processes: ended as a whole, or their terminal hung up. Blocking; for threads.

The engine's API starts an exec and tells its process id, and that is all. A process id may be a stranger's by the time
it is used, so a process is held by a descriptor first, then shown to be in the container's cgroup, and only then
signalled. Of the container's other processes none is touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TIOCVHANGUP = 0x5437
_ROUNDS = 20
"""Looks at all processes until no new one is found; each takes some 10 ms with 500 processes."""


@dataclass(frozen=True, slots=True)
class Process:
    """What /proc/PID/stat says of a process (proc(5))."""

    pid: int
    parent: int
    session: int
    started: int
    """Clock ticks since the boot: with the pid, it names a process for ever."""


def read_process(pid: int, proc: Path = Path("/proc")) -> Process | None:
    """A process as it is now; None if there is none, or only its corpse."""
    try:
        text = (proc / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in parentheses, may hold anything.
    fields = text[text.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def in_container(pid: int, container_id: str, proc: Path = Path("/proc")) -> bool:
    """Whether a process is in the cgroup that the engine named after the container."""
    try:
        return container_id in (proc / str(pid) / "cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def family(all_processes: Iterable[Process], known: set[int], sessions: set[int]) -> list[Process]:
    """Those of `all_processes` that descend from `known` or are in one of `sessions`; both sets take them up.

    A process whose parent ended belongs to the container's first process, but keeps its session.
    """
    waiting = list(all_processes)
    found: list[Process] = []
    while True:
        more = [p for p in waiting if p.pid in known or p.parent in known or p.session in sessions]
        if not more:
            return found
        found += more
        known.update(p.pid for p in more)
        sessions.update(p.pid for p in more if p.session == p.pid)
        waiting = [p for p in waiting if p.pid not in known]


def kill_family(pid: int, container_id: str) -> int:
    """Kill a container's process `pid`, its descendants and their sessions; returns how many were killed.

    All are stopped first: what stands still neither forks nor ends, so nothing escapes. A process that is not (any
    more) the container's is left alone.
    """
    held: dict[int, int] = {}
    known, sessions = {pid}, set[int]()
    try:
        if not _hold(pid, held) or not in_container(pid, container_id):
            return 0
        _signal(held[pid], signal.SIGSTOP)
        for _ in range(_ROUNDS):
            fresh = [p for p in family(_all_processes(), known, sessions) if p.pid not in held and _hold_same(p, held)]
            for process in fresh:
                _signal(held[process.pid], signal.SIGSTOP)
            if not fresh:
                break
        for descriptor in held.values():
            _signal(descriptor, signal.SIGKILL)
        return len(held)
    finally:
        for descriptor in held.values():
            os.close(descriptor)


def hang_up(pid: int, container_id: str) -> None:
    """Do to the terminal of a container's process what a closed window does: reads end, writes fail, SIGHUP is sent.

    Where the process has no terminal open any more, it and its session's others get the signal alone.
    """
    held: dict[int, int] = {}
    try:
        if not _hold(pid, held) or not in_container(pid, container_id):
            return
        if not _hang_up_terminal(pid):
            for process in family(_all_processes(), {pid}, {pid}):
                if process.pid == pid or _hold_same(process, held):
                    _signal(held[process.pid], signal.SIGHUP)
                    _signal(held[process.pid], signal.SIGCONT)
    finally:
        for descriptor in held.values():
            os.close(descriptor)


def _hang_up_terminal(pid: int) -> bool:
    for number in (0, 1, 2):
        try:
            descriptor = os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if os.isatty(descriptor):
                fcntl.ioctl(descriptor, _TIOCVHANGUP)
                return True
        except OSError:
            return False
        finally:
            os.close(descriptor)
    return False


def _all_processes() -> list[Process]:
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


def _hold(pid: int, held: dict[int, int]) -> bool:
    """Open a descriptor of a process; False if there is none."""
    try:
        held[pid] = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    return True


def _hold_same(process: Process, held: dict[int, int]) -> bool:
    """Open a descriptor of this very process; False if it has ended, and perhaps another one has its number."""
    if not _hold(process.pid, held):
        return False
    if read_process(process.pid) == process or _started_alike(process):
        return True
    os.close(held.pop(process.pid))
    return False


def _started_alike(process: Process) -> bool:
    """The same process, whose parent has ended meanwhile."""
    now = read_process(process.pid)
    return now is not None and now.started == process.started


def _signal(descriptor: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, number)
