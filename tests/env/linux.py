"""The few system calls that the standard library of Python 3.11 lacks: unshare, mount, umount2, prctl, lo up."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_SHARED = 1 << 20
MNT_DETACH = 2

CAP_SYS_RESOURCE = 24

_PR_SET_PDEATHSIG = 1
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    """Raise OSError with errno's text and ``what`` if a libc call returned -1."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Give this process new namespaces (unshare(2)).  Raises OSError."""
    _check(_libc.unshare(flags), "unshare")


def die_with_parent(signum: int) -> None:
    """Have the kernel send ``signum`` to this process when its parent ends (prctl(2), PR_SET_PDEATHSIG)."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0), "prctl")


def mount(source: str | None, target: Path | str, fstype: str | None, flags: int = 0, data: str = "") -> None:
    """Mount (mount(2)).  Raises OSError that names source and target."""
    result = _libc.mount(
        source.encode() if source else None,
        os.fsencode(target),
        fstype.encode() if fstype else None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _check(result, f"mount {fstype or source or ''} on {target}")


def umount(target: Path | str) -> None:
    """Take a mount away from the tree at once, even when it is busy (umount2(2), MNT_DETACH).  Raises OSError."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"umount {target}")


def loopback_up() -> None:
    """Switch on ``lo`` in this process's network namespace.  Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(sock, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))


def has_capability(number: int) -> bool:
    """Whether this process has the capability in its effective set."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    raise RuntimeError("/proc/self/status has no CapEff line")


def mounts() -> list[tuple[str, str, str, str]]:
    """This process's mounts, in order: (mount point, type, root within the filesystem, super options)."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ", 1)
        fields, tail = left.split(), right.split()
        point = fields[4].encode().decode("unicode_escape")  # blanks are written as \040
        found.append((point, tail[0], fields[3], tail[2] if len(tail) > 2 else ""))
    return found
