"""The mount calls and the questions about propagation that pinned namespaces and views of images need.

Python has no mount(2); the calls go through libc, release the GIL while they run, and raise OSError with the
kernel's errno.  They may wait on the kernel's namespace lock: call them in a thread, not on the event loop.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

MS_RDONLY = 1
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 0x2, 0x4, 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
MS_SHARED = 1 << 20
_MNT_DETACH = 2
_UMOUNT_NOFOLLOW = 8

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_void_p]
_libc.umount2.argtypes = [ctypes.c_char_p, ctypes.c_int]


def mount(source: str, target: str, flags: int) -> None:
    """Call mount(2) without file system type or data: a bind mount or a change of propagation.  Raises OSError."""
    if _libc.mount(os.fsencode(source), os.fsencode(target), None, flags, None) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def mount_read_only(fstype: str, target: str, data: str) -> None:
    """Mount a new file system of type `fstype` on `target`, read-only as a whole.  `data`: its options, of less than a
    page.  Raises OSError."""
    source, words = os.fsencode(fstype), os.fsencode(data)
    if _libc.mount(source, os.fsencode(target), source, MS_RDONLY, words) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def mount_tmpfs(target: str, options: str) -> None:
    """Mount a file system in memory that nothing is run from, as engines do it for /dev/shm.  Raises OSError."""
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    data = ctypes.c_char_p(options.encode())
    if _libc.mount(b"shm", os.fsencode(target), b"tmpfs", flags, ctypes.cast(data, ctypes.c_void_p)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def mount_sysfs(target: str) -> None:
    """Mount the calling thread's view of /sys, to be written.  Raises OSError."""
    if _libc.mount(b"sysfs", os.fsencode(target), b"sysfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def detach(target: str) -> None:
    """Take the topmost mount off `target` at once, whoever still uses it (MNT_DETACH).  Raises OSError.

    EINVAL says that `target` is no mount point.
    """
    if _libc.umount2(os.fsencode(target), _MNT_DETACH | _UMOUNT_NOFOLLOW) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


@dataclass(frozen=True, slots=True)
class MountEntry:
    """What one line of mountinfo says about propagation (proc(5))."""

    mount_id: int
    """Unique among all mount namespaces while the mount exists."""
    root: str
    """Path inside the file system that the mount shows, escaped as the kernel writes it."""
    shared: int
    """Peer group whose members see each other's mounts; 0: none."""
    master: int
    """Peer group whose mounts arrive here without going back; 0: none."""


def parse_mountinfo(text: str) -> list[MountEntry]:
    """Read the text of /proc/PID/mountinfo."""
    entries = []
    for line in text.splitlines():
        fields = line.split(" ")
        tags = dict(tag.split(":", 1) for tag in fields[6 : fields.index("-")] if ":" in tag)
        entries.append(
            MountEntry(int(fields[0]), fields[3], int(tags.get("shared", "0")), int(tags.get("master", "0")))
        )
    return entries


def reaches(ours: list[MountEntry], host: list[MountEntry], mount_id: int) -> bool:
    """Say whether what is mounted inside mount `mount_id` of namespace `ours` appears in namespace `host`.

    It does when both are one namespace (mount ids are unique), or when a mount of the host is a peer or a receiver in
    the peer group of ours and shows the same part of the file system.
    """
    if any(entry.mount_id == mount_id for entry in host):
        return True
    own = next((entry for entry in ours if entry.mount_id == mount_id), None)
    if own is None or own.shared == 0:
        return False
    return any(own.shared in (entry.shared, entry.master) and _covers(entry.root, own.root) for entry in host)


def _covers(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def mount_id(path: str) -> int:
    """Return the id of the mount that `path` lies in.  Raises OSError."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
            for line in file:
                if line.startswith("mnt_id:"):
                    return int(line.split(":")[1])
    finally:
        os.close(descriptor)
    raise OSError(f"no mount id known for {path}")


def mounts_reach_host(path: str) -> bool:
    """Say whether the host, that is the mount namespace of process 1, sees a mount made under the folder `path`.

    Where process 1 is not the host's (a PID namespace of our own) the answer is about that process.  Raises OSError.
    """
    with open("/proc/1/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        host = parse_mountinfo(file.read())
    return reaches(own_mounts(), host, mount_id(path))


def is_shared(path: str) -> bool:
    """Say whether the mount that `path` lies in shows its mounts to others.  Raises OSError."""
    wanted = mount_id(path)
    return any(entry.mount_id == wanted and entry.shared != 0 for entry in own_mounts())


def own_mounts() -> list[MountEntry]:
    """Return the mounts of our own mount namespace.  Raises OSError."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        return parse_mountinfo(file.read())
