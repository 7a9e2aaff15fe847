"""Namespaces of pods that no process holds: made and pinned by a thread that then ends.

A pod's network namespace is pinned where those of all pods are (`netns`). What else is held of it lies in a folder of
its own: the pins `ipc` and `uts`, the file system `shm` that its containers have as /dev/shm, and the files that they
have in /etc. All of that is on a small file system in memory that is mounted on the folder: the kernel takes its time
for each umount, and so one call lets all of it go. The folder goes last, so that a pod of which anything is left is
found by it.

The synchronous functions make system calls that can wait; the event loop uses those of `KernelNamespaces`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from crishim.errors import NetnsError
from crishim.model import IDMapping
from crishim.network import mounts, netns

Kind = Literal["network", "ipc", "uts", "user"]
FLAGS: Mapping[Kind, int] = {"network": 0x40000000, "ipc": 0x08000000, "uts": 0x04000000, "user": 0x10000000}
"""CLONE_NEW… of each kind."""
NAMES: Mapping[Kind, str] = {"network": "net", "ipc": "ipc", "uts": "uts", "user": "user"}
"""Their names in /proc/PID/ns."""
SHM = "shm"
_IPC_SETTINGS = ("kernel/shm", "kernel/msg", "kernel/sem", "fs/mqueue/")
_FOLDER_SIZE = 1 << 20
"""Bytes of the file system on a pod's folder."""
_OWNER = """
import ctypes, os, sys
failed = ctypes.CDLL(None, use_errno=True).unshare(int(sys.argv[1])) != 0
print(ctypes.get_errno() if failed else 0, flush=True)
os.read(0, 1)
"""
"""A process that makes a user namespace with others that it owns, and stays until it is ended."""
_OWNER_LIMIT = 10.0
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to be made for a pod and held."""

    kinds: frozenset[Kind]
    """The namespaces that are not the host's."""
    hostname: str = ""
    """Of the UTS namespace."""
    sysctls: Mapping[str, str] = field(default_factory=dict)
    """Settings of the network and the IPC namespace, in the order in which they are written; names as sysctl(8) takes
    them."""
    shm_size: int = 64 << 20
    """Bytes of /dev/shm, which goes with the IPC namespace."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Name to text."""
    writable_sys: bool = False
    """Whether privileged containers are to come. The first mount of /sys in a network namespace decides for all later
    ones whether they can be written: with one that an ordinary container has made, a privileged one's could not."""
    uids: IDMapping | None = None
    """Users of the user namespace, which owns the others; None, as long as `kinds` has no `user`."""
    gids: IDMapping | None = None
    """Groups of it."""

    @property
    def owner(self) -> tuple[int, int]:
        """User and group on the host that are root for the pod's containers."""
        return (self.uids.host_id if self.uids else 0, self.gids.host_id if self.gids else 0)


def pin_of(kind: Kind, net_path: str, folder: str) -> str:
    """Where the namespace of this kind is pinned."""
    return net_path if kind == "network" else os.path.join(folder, kind)


def make_sync(net_path: str, folder: str, wanted: Wanted) -> None:
    """Make all of it, by a thread that ends after this. Raises NetnsError; nothing is left then."""
    settings = [(_setting(name, wanted.kinds), value) for name, value in wanted.sysctls.items()]
    try:
        os.makedirs(os.path.dirname(folder), 0o755, exist_ok=True)
        os.mkdir(folder, 0o755)
    except OSError as error:
        raise NetnsError(f"{folder} cannot be made: {error.strerror}", path=folder) from error
    try:
        with _told(f"{folder} cannot be mounted"):
            # Users of the host find the way to volumes barred elsewhere, and so here: root alone goes in, and who is
            # root for the pod's containers, as whom an OCI runtime looks for their root file system.
            mounts.mount_tmpfs(folder, f"mode=710,gid={wanted.owner[1]},size={_FOLDER_SIZE}")
        with _made(wanted) as made:
            if "uts" in wanted.kinds:
                _set_hostname(wanted.hostname)
            if "network" in wanted.kinds:
                _raise_loopback()
                netns.write_settings(net_path, netns.ipv6_settings())
            netns.write_settings(net_path if "network" in wanted.kinds else folder, settings)
            if wanted.writable_sys and "network" in wanted.kinds and "user" not in wanted.kinds:
                _make_sys(os.path.join(folder, "sys"))
            for kind in sorted(wanted.kinds):
                _pin(kind, f"{made}/{NAMES[kind]}", pin_of(kind, net_path, folder))
        if "ipc" in wanted.kinds:
            _make_shm(os.path.join(folder, SHM), wanted.shm_size)
        for name, text in wanted.files.items():
            _write(os.path.join(folder, name), text, wanted.owner)
    except BaseException:
        unmake_sync(net_path, folder)
        raise


def unmake_sync(net_path: str, folder: str) -> None:
    """Let go all that is held of a pod, whatever there is of it. Raises NetnsError; to be repeated then."""
    netns.unpin_sync(net_path)
    try:
        netns.take_off(folder)
        os.rmdir(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise NetnsError(f"{folder} cannot be cleared: {error.strerror}", path=folder) from error


def holds_sync(net_path: str, folder: str, kinds: frozenset[Kind]) -> bool:
    """Whether all of a pod's namespaces are held. Raises NetnsError."""
    try:
        inside = os.stat(folder).st_dev
        if inside == os.stat(os.path.dirname(folder)).st_dev:
            return False
        if "ipc" in kinds and os.stat(os.path.join(folder, SHM)).st_dev == inside:
            return False
    except FileNotFoundError:
        return False
    except OSError as error:
        raise NetnsError(f"{folder}: {error.strerror}", path=folder) from error
    return all(netns.identity(pin_of(kind, net_path, folder), FLAGS[kind]) is not None for kind in kinds)


def strangers_sync(
    pid: int, net_path: str, folder: str, kinds: frozenset[Kind], host: str = "self"
) -> tuple[Kind, ...]:
    """The kinds in which process `pid` does not live in the pod's namespace, but in another one.

    Of the kinds that the pod shares with the host it must live where process `host` does. A process that has ended
    lives nowhere: none.
    """
    found: list[Kind] = []
    for kind in FLAGS:
        try:
            status = os.stat(f"/proc/{pid}/ns/{NAMES[kind]}")
        except (FileNotFoundError, ProcessLookupError):
            return ()
        except OSError as error:
            raise NetnsError(f"the namespaces of process {pid} cannot be read: {error.strerror}") from error
        path = pin_of(kind, net_path, folder) if kind in kinds else f"/proc/{host}/ns/{NAMES[kind]}"
        if (status.st_dev, status.st_ino) != netns.identity(path, FLAGS[kind]):
            found.append(kind)
    return tuple(found)


def list_folders(directory: str) -> tuple[str, ...]:
    """Names in the folder of the pods' folders: ids. A missing folder holds none. Raises NetnsError."""
    try:
        return tuple(sorted(os.listdir(directory)))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise NetnsError(f"{directory} cannot be listed: {error.strerror}", path=directory) from error


def _setting(name: str, kinds: frozenset[Kind]) -> str:
    """The file below /proc/sys; raises NetnsError for one that is not of the namespaces that are made."""
    file = netns.sysctl_file(name)
    if (file.startswith("net/") and "network" in kinds) or (file.startswith(_IPC_SETTINGS) and "ipc" in kinds):
        return file
    raise NetnsError(f"{name!r} is not a setting of the pod's own namespaces", setting=name)


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NetnsError(f"{what}: {error.strerror}") from error


def _call(function: Callable[..., int], *arguments: object) -> None:
    if function(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@contextlib.contextmanager
def _made(wanted: Wanted) -> Iterator[str]:
    """Make the namespaces and enter them, but for the user namespace; gives the folder that shows them, inside."""
    if "user" not in wanted.kinds:
        _unshare(wanted.kinds)
        yield "/proc/thread-self/ns"
        return
    with _told("the pod's user namespace cannot be made"):
        # No thread of ours can: the kernel wants a process that has no other.
        flags = str(sum(FLAGS[kind] for kind in wanted.kinds))
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _OWNER, flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    with process:
        try:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], _OWNER_LIMIT)
            answer = process.stdout.readline() if ready else b""
            if answer.strip() != b"0":
                words = os.strerror(int(answer)) if answer.strip().isdigit() else "no answer"
                raise NetnsError(f"the pod's user namespace cannot be made: {words}")
            with _told("the pod's user namespace cannot be given its mappings"):
                for name, ids in (("uid_map", wanted.uids), ("gid_map", wanted.gids)):
                    assert ids is not None, "a user namespace is wanted with its mappings"
                    with open(f"/proc/{process.pid}/{name}", "w", encoding="ascii") as file:
                        file.write(f"{ids.container_id} {ids.host_id} {ids.length}\n")
            with _told("the pod's namespaces cannot be entered"):
                for kind in sorted(wanted.kinds - {"user"}):
                    with open(f"/proc/{process.pid}/ns/{NAMES[kind]}", "rb") as namespace:
                        _call(_libc.setns, namespace.fileno(), FLAGS[kind])
            yield f"/proc/{process.pid}/ns"
        finally:
            process.kill()


def _unshare(kinds: frozenset[Kind]) -> None:
    with _told("the pod's namespaces cannot be made"):
        _call(_libc.unshare, sum(FLAGS[kind] for kind in kinds))


def _set_hostname(name: str) -> None:
    data = name.encode()
    with _told(f"the host name cannot be made {name!r}"):
        _call(_libc.sethostname, data, ctypes.c_size_t(len(data)))


def _raise_loopback() -> None:
    """Switch `lo` on; it gets its addresses by that."""
    with (
        _told("the loopback interface cannot be switched on"),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as made,
    ):
        request = fcntl.ioctl(made, _SIOCGIFFLAGS, struct.pack("16sH22x", b"lo", 0))
        (flags,) = struct.unpack_from("H", request, 16)
        fcntl.ioctl(made, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | _IFF_UP))


def _pin(kind: Kind, source: str, path: str) -> None:
    """Pin the namespace that procfs shows at `source`."""
    with _told(f"the {kind} namespace cannot be pinned on {path}"):
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o444))
        mounts.mount(source, path, mounts.MS_BIND)


def _make_shm(path: str, size: int) -> None:
    with _told(f"{path} cannot be mounted"):
        os.mkdir(path, 0o1777)
        mounts.mount_tmpfs(path, f"mode=1777,size={size}")


def _make_sys(path: str) -> None:
    with _told(f"{path} cannot be mounted"):
        os.mkdir(path, 0o700)
        mounts.mount_sysfs(path)


def _write(path: str, text: str, owner: tuple[int, int]) -> None:
    with _told(f"{path} cannot be written"):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o644)  # whatever our umask is: containers' users read it
            os.fchown(file.fileno(), *owner)
            file.write(text.encode(errors="surrogateescape"))  # the host's, as they are
