"""Plugins that outlived the runtime that ran them.

A runtime that was killed leaves its plugins running.  One that is still at an ADD would finish it *after* the DEL that
the runtime's successor runs, and what it made then belongs to nobody.  So the successor ends it first.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from cni.errors import StrayLeft

_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
_STARTS = 1.0  # seconds in which processes that show no environment are read again: they may be just starting
_ROUNDS = 20  # of looking and ending, after which they are taken to be quicker than we are


def end_strays(container_id: str, proc: str = "/proc") -> int:
    """End all processes that a plugin's run for `container_id` left, and wait until they are gone; return how many.

    They are told by the CNI_CONTAINERID in their environment, so plugins that a plugin ran (IPAM) are found as well;
    not a program that a plugin gave an environment without it.
    What they start while they are ended is looked for anew, and killed at once.  Reads the environment of every
    process and may wait: for a thread.  Not while a plugin of ours runs for the container.  Processes of other users,
    which cannot be plugins of ours, are passed over.  Raises StrayLeft when one does not go, or when
    new ones come again and again.
    """
    mark = f"CNI_CONTAINERID={container_id}".encode()
    ended = 0
    signals = [signal.SIGTERM, signal.SIGKILL]
    for _ in range(_ROUNDS):
        with contextlib.ExitStack() as opened:
            found = _find(mark, proc, opened)
            if not found:
                return ended
            if left := _end(found, signals):
                raise StrayLeft(f"{left} processes that plugins left for {container_id} cannot be ended")
        ended += len(found)
        signals = [signal.SIGKILL]
    raise StrayLeft(f"processes that plugins left for {container_id} start others again and again")


def _find(mark: bytes, proc: str, opened: contextlib.ExitStack) -> list[int]:
    """Return descriptors, which `opened` closes, of all processes that have `mark` in their environment."""
    found = []
    deadline = time.monotonic() + _STARTS
    for name in os.listdir(proc):
        if name.isdigit() and int(name) != os.getpid() and mark in _environment(proc, name, deadline):
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(int(name))
                opened.callback(os.close, descriptor)
                if mark in _environment(proc, name, deadline):  # otherwise the number is another's by now
                    found.append(descriptor)
    return found


def _environment(proc: str, name: str, deadline: float) -> list[bytes]:
    """The environment of a process; empty for one that has ended, is the kernel's, or is another user's.

    The kernel shows none, either, while an execve is under way, nor through a file that was opened before it and is
    read after it.  A process that shows none is read again, as the child of a plugin would be passed over just when it
    starts: until it shows what it got, or none beside its arguments, which come with it, and that three times.
    """
    looks = 3
    try:
        while not (content := _read(f"{proc}/{name}/environ")):
            os.readlink(f"{proc}/{name}/exe")  # the kernel's own and the ended have no program
            looks -= bool(_read(f"{proc}/{name}/cmdline"))
            if not looks or time.monotonic() > deadline:
                break
            time.sleep(0.001)
        return content.split(b"\0")
    except OSError:
        return []


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _end(descriptors: list[int], signals: list[signal.Signals]) -> int:
    """Send these signals, one after the other where needed; return how many are still there after the last."""
    living = select.poll()
    left = set(descriptors)
    for descriptor in descriptors:
        living.register(descriptor, select.POLLIN)  # readable when the process has ended
    for number in signals:
        for descriptor in left:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
        deadline = time.monotonic() + _GRACE
        while left and (wait := deadline - time.monotonic()) > 0:
            for descriptor, _ in living.poll(wait * 1000):
                living.unregister(descriptor)
                left.discard(descriptor)
    return len(left)
