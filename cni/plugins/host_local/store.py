"""The folder of leases, in the reference plugin's layout, so that both can work on it at the same time.

One file per address, named like it, that holds the container's id and interface; `last_reserved_ip.N` with the last
address of range set N; `lock`, which whoever looks or writes holds by flock(2).  A lease comes to be as a whole (it is
written without a name, then linked), so a crash leaves a lease with its owner or none: never one without.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from cni.errors import Code
from cni.plugins.api import CallFailed
from cni.plugins.host_local.ranges import Address

DEFAULT = "/var/lib/cni/networks"
_LAST = "last_reserved_ip."
_UNFINISHED = ".unfinished"
_PAUSE = 0.002  # seconds between looks at a lock that another process holds
_LOCKED_AT_MOST = 30.0  # seconds that a DEL or GC waits for it

_turns_lock = threading.Lock()
_turns: dict[str, threading.Lock] = {}
_read_before: dict[str, dict[str, tuple[tuple[int, int, int], Lease]]] = {}
"""By folder and file name: leases that were read, with inode, size and time of change.  Used by who holds the lock."""


@dataclass(frozen=True, slots=True)
class Lease:
    """An address that is taken, and by whom: `owner` is as in the file, "" in one that holds nothing."""

    address: str
    owner: str


def owner_of(container_id: str, ifname: str) -> str:
    """Return what a lease's file holds."""
    return f"{container_id}\r\n{ifname}"


def of(leases: Sequence[Lease], container_id: str, ifname: str) -> list[Lease]:
    """Return those of `leases` that belong to a container's interface.  Pure."""
    owner = owner_of(container_id, ifname)
    own = [lease for lease in leases if lease.owner == owner]
    # The reference plugin before 0.8 did not write the interface.
    return own or [lease for lease in leases if lease.owner == container_id]


class Store:
    """The leases of one network.  Made by `opened`, which holds the lock."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def leases(self) -> list[Lease]:
        """Return all leases; reads only files that are not as they were when last read, for there can be hundreds."""
        before = _read_before.get(self._folder, {})
        now: dict[str, tuple[tuple[int, int, int], Lease]] = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                known = before.get(entry.name)
                if known is None and not _is_address(entry.name):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    stamp = (status.st_ino, status.st_size, status.st_ctime_ns)
                    same = known is not None and known[0] == stamp
                    now[entry.name] = known if same and known else (stamp, Lease(entry.name, self._read(entry.name)))
        _read_before[self._folder] = now
        return [lease for _, lease in now.values()]

    def of(self, container_id: str, ifname: str) -> list[Lease]:
        """Return the leases of a container's interface."""
        return of(self.leases(), container_id, ifname)

    def reserve(self, address: Address, container_id: str, ifname: str, set_number: int) -> bool:
        """Take an address; False when it is taken."""
        content = owner_of(container_id, ifname).encode()
        if not self._create(str(address), content):
            return False
        self._overwrite(f"{_LAST}{set_number}", str(address).encode())
        return True

    def release(self, lease: Lease) -> None:
        """Give an address back."""
        _read_before.get(self._folder, {}).pop(lease.address, None)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, lease.address))

    def last(self, set_number: int) -> Address | None:
        """Return the address that was last given out of a range set."""
        try:
            return ip_address(self._read(f"{_LAST}{set_number}"))
        except (FileNotFoundError, ValueError):
            return None

    def _read(self, name: str) -> str:
        descriptor = os.open(os.path.join(self._folder, name), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, 4096).decode(errors="replace").strip()
        finally:
            os.close(descriptor)

    def _create(self, name: str, content: bytes) -> bool:
        path = os.path.join(self._folder, name)
        try:
            descriptor = os.open(self._folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            source = f"/proc/self/fd/{descriptor}"
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT):
                raise
            # This file system has no files without a name.  What a crash leaves of this one the next call overwrites.
            source = os.path.join(self._folder, _UNFINISHED)
            descriptor = os.open(source, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, content)
            # Without some descriptor Python calls link(2), which does not follow; it counts for nothing else.
            os.link(source, path, src_dir_fd=descriptor, follow_symlinks=True)
        except FileExistsError:
            return False
        finally:
            os.close(descriptor)
            if source.endswith(_UNFINISHED):
                os.unlink(source)
        return True

    def _overwrite(self, name: str, content: bytes) -> None:
        """Write what is only a hint: torn by a crash it names another address, or none, to go on after."""
        descriptor = os.open(os.path.join(self._folder, name), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, content)
            os.ftruncate(descriptor, len(content))
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def opened(folder: str, goes_on: Callable[[], None] | None, *, create: bool) -> Iterator[Store | None]:
    """Give the store of the network whose folder this is, locked; None when there is none and `create` is not set.

    `goes_on`: raises when nobody waits for the lock any more; None: it is waited for half a minute.  Raises
    CallFailed with code 11 when that is over.
    """
    if create:
        os.makedirs(folder, 0o755, exist_ok=True)
    elif not os.path.isdir(folder):
        yield None
        return
    with _turns_lock:
        turn = _turns.setdefault(folder, threading.Lock())
    until = time.monotonic() + _LOCKED_AT_MOST

    def still_waiting() -> None:
        if goes_on is not None:
            goes_on()
        elif time.monotonic() > until:
            raise CallFailed(Code.TRY_AGAIN_LATER, f"{folder}: another process holds the lock")

    while not turn.acquire(timeout=0.1):  # threads of this process line up here, without looking again and again
        still_waiting()
    try:
        lock = os.open(os.path.join(folder, "lock"), os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o600)
        try:
            while not _locked(lock):
                still_waiting()
                time.sleep(_PAUSE)
            yield Store(folder)
        finally:
            os.close(lock)
    finally:
        turn.release()


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
