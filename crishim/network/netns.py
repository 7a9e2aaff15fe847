"""Pinned network namespaces, and work done inside one.

A pin is a bind mount of a network namespace on an empty file.  It keeps the namespace alive when the sandbox process
is dead, so that CNI DEL finds it (without it, addresses leak).  Pins lie in /run/netns, where `ip netns` and the
daemons of CNI plugins look, on a shared mount, so that daemons in containers see new ones appear.

Work inside a namespace is done by a thread of its own that enters it and then ends: no thread ever has to find home.
Nothing here forks.  The synchronous functions make system calls that can wait; the event loop uses the `async` ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import os
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from crishim.errors import NetnsError
from crishim.network import mounts

PREFIX = "crishim-"
"""Names of our pins begin with this; the sandbox id follows."""

_T = TypeVar("_T")
_V = TypeVar("_V")
_CLONE_NEWNET = 0x40000000
_NS_GET_NSTYPE = 0xB703  # ioctl of nsfs files (ioctl_nsfs(2)): the CLONE_NEW… flag of the namespace
_STACKED_AT_MOST = 16
_IPV6_SWITCHES = tuple(f"net/ipv6/conf/{which}/disable_ipv6" for which in ("all", "default", "lo"))

_libc = ctypes.CDLL(None, use_errno=True)


def pin_path(directory: str, sandbox_id: str) -> str:
    """Return where the namespace of a sandbox is pinned.  Raises NetnsError for an id that is no plain file name."""
    if not sandbox_id or "/" in sandbox_id or "\0" in sandbox_id:
        raise NetnsError(f"{sandbox_id!r} cannot name a pinned network namespace", sandbox_id=sandbox_id)
    return os.path.join(directory, PREFIX + sandbox_id)


def make_shared(directory: str) -> None:
    """Make `directory` a folder in which pins are seen by the host and by containers that mount it; idempotent.

    Where it lies on a shared mount (/run under systemd) nothing is mounted.  Elsewhere it becomes one, as `ip netns`
    does it, by being bound on itself.  (Doing that on a shared mount, too, would show every pin twice.)  Raises
    NetnsError, also when we live in a mount namespace whose mounts do not reach the host's.
    """
    try:
        os.makedirs(directory, 0o755, exist_ok=True)
        if not mounts.is_shared(directory):
            try:
                mounts.mount("none", directory, mounts.MS_SHARED | mounts.MS_REC)
            except OSError as error:
                if error.errno != errno.EINVAL:  # EINVAL: not a mount point yet
                    raise
                mounts.mount(directory, directory, mounts.MS_BIND | mounts.MS_REC)
                mounts.mount("none", directory, mounts.MS_SHARED | mounts.MS_REC)
        reached = mounts.mounts_reach_host(directory)
    except OSError as error:
        raise NetnsError(f"network namespaces cannot be pinned in {directory}: {error}", path=directory) from error
    if not reached:
        raise NetnsError(
            f"mounts made in {directory} do not reach the host's mount namespace: run crishim in the host's, or give "
            f"its container {directory} with bidirectional (rshared) propagation",
            path=directory,
        )


def is_pinned(path: str) -> bool:
    """Say whether a network namespace is mounted on `path`.  A missing path is not an error."""
    return identity(path) is not None


def is_inhabited(path: str) -> bool:
    """Say whether any process that we can see lives in the namespace pinned on `path`; looks at all of them."""
    wanted = identity(path)
    if wanted is None:
        return False
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile
                status = os.stat(f"/proc/{name}/ns/net")
                if (status.st_dev, status.st_ino) == wanted:
                    return True
    return False


def identity(path: str, kind: int = _CLONE_NEWNET) -> tuple[int, int] | None:
    """Return (device, inode) of the namespace that `path` shows, None where it shows none of this kind (CLONE_NEW…)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NetnsError(f"{path}: {error.strerror}", path=path) from error
    try:
        return _namespace_of(descriptor, kind)
    finally:
        os.close(descriptor)


def _namespace_of(descriptor: int, kind: int = _CLONE_NEWNET) -> tuple[int, int] | None:
    try:
        found = fcntl.ioctl(descriptor, _NS_GET_NSTYPE)
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EINVAL):  # no file of nsfs
            return None
        raise
    if found != kind:
        return None
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def pin_sync(pid: int, path: str, owner: str = "") -> bool:
    """Pin the network namespace of process `pid` on `path`.  Again with the same namespace: nothing to do.

    Raises NetnsError: no such process, another namespace is pinned there, or the namespace is our own.  A pid can be
    used again by a stranger.  True says that this one is not: it is in a cgroup named after the container `owner`.
    After False the engine is to be asked whether the sandbox still runs with this pid.
    """
    ids = {"path": path, "pid": str(pid)}
    try:
        # The folder stays that process's, whoever gets its number later.
        process = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            known = bool(owner) and _in_cgroup_of(process, owner)
            source = os.open("ns/net", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process)
        finally:
            os.close(process)
    except OSError as error:
        raise NetnsError(f"the network namespace of process {pid} cannot be opened: {error.strerror}", **ids) from error
    try:
        wanted = _namespace_of(source)
        if wanted == identity("/proc/self/ns/net"):
            # Attaching and detaching there would take the host's network apart.
            raise NetnsError(f"process {pid} is in crishim's own network namespace, which is never pinned", **ids)
        present = identity(path)
        if present == wanted:
            return known
        if present is not None:
            raise NetnsError(f"{path} already pins another network namespace", **ids)
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o444))
            try:
                mounts.mount(f"/proc/self/fd/{source}", path, mounts.MS_BIND)
            except BaseException:
                os.unlink(path)
                raise
        except OSError as error:
            reason = f"the network namespace of process {pid} cannot be pinned on {path}: {error.strerror}"
            raise NetnsError(reason, **ids) from error
        return known
    finally:
        os.close(source)


def _in_cgroup_of(process: int, owner: str) -> bool:
    """Say whether a process (a descriptor of its folder) is in a cgroup that bears the name `owner`.

    Every driver puts the container's whole id into it: `/docker/ID`, `docker-ID.scope`.
    """
    descriptor = os.open("cgroup", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process)
    with os.fdopen(descriptor, "rb") as file:
        return owner.encode() in file.read()


def unpin_sync(path: str) -> None:
    """Take the pin off `path` and remove the file; the namespace dies when nobody else holds it.  Idempotent.

    A stale file that pins nothing is removed as well.  Raises NetnsError, and leaves what is neither a pin nor an
    empty file alone.
    """
    try:
        take_off(path)
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size:
            raise NetnsError(f"{path} is neither a pin nor an empty file; it is left alone", path=path)
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise NetnsError(f"{path} cannot be unpinned: {error.strerror}", path=path) from error


def take_off(path: str) -> None:
    """Take all mounts off `path`, whoever stacked them; none is no error.  Raises OSError."""
    for _ in range(_STACKED_AT_MOST):
        try:
            mounts.detach(path)
        except OSError as error:
            if error.errno == errno.EINVAL:  # no mount (any more)
                return
            raise


def list_pins(directory: str, prefix: str = PREFIX) -> tuple[str, ...]:
    """Return the paths in `directory` whose names begin with `prefix`, sorted: pins, and stale files to be unpinned.

    A missing folder holds none.  Raises NetnsError.
    """
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise NetnsError(f"{directory} cannot be listed: {error.strerror}", path=directory) from error
    return tuple(sorted(os.path.join(directory, name) for name in names if name.startswith(prefix)))


async def pin(pid: int, path: str) -> None:
    """`pin_sync` in a thread.  Cancelled: the mount may still come to be; unpin waits its turn behind it."""
    await in_thread(lambda: pin_sync(pid, path), "pin")


async def furnish(pid: int, path: str, owner: str, sysctls: Mapping[str, str], also: Callable[[], None]) -> bool:
    """`pin`, `enable_ipv6` and `also` by one thread, for threads are what these steps cost most.

    False, and only the pin is made, where the process is not known to be the container `owner`'s.  Raises NetnsError,
    and what `also` raises.
    """
    settings = _settings_of(sysctls)

    def work() -> bool:
        if not pin_sync(pid, path, owner):
            return False
        also()
        _enter(path)
        _enable_ipv6(path, settings)
        return True

    return await in_thread(work, "furnish")


async def unpin(path: str) -> None:
    """`unpin_sync` in a thread."""
    await in_thread(lambda: unpin_sync(path), "unpin")


async def in_netns(path: str, function: Callable[[], _T]) -> _T:
    """Run `function` in a thread that has entered the network namespace at `path`; return its answer.

    `function` must be short (make a socket, write a setting) and must not start processes or threads.  Its own
    exceptions pass through; NetnsError when the namespace cannot be entered.  A cancellation is delivered only when
    the thread has ended.
    """

    def entered() -> _T:
        _enter(path)
        return function()

    return await in_thread(entered, "netns")


def _enter(path: str) -> None:
    """Move the calling thread into the network namespace at `path` for the rest of its life.  Raises NetnsError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise NetnsError(f"the network namespace {path} cannot be opened: {error.strerror}", path=path) from error
    try:
        if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
            reason = os.strerror(ctypes.get_errno())
            raise NetnsError(f"the network namespace {path} cannot be entered: {reason}", path=path)
    finally:
        os.close(descriptor)


async def in_thread(function: Callable[[], _T], what: str) -> _T:
    """Run `function` in a thread made for it alone, and see it ended whatever happens to us.

    The thread ends instead of going back to a pool: so it may change its namespace.  A cancellation waits for the end
    (the work is a few system calls), so that an undo never overtakes what it is to undo.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def body() -> None:
        try:
            answer = function()
        except BaseException as error:
            settle(done.set_exception, error)
        else:
            settle(done.set_result, answer)

    def settle(setter: Callable[[_V], None], value: _V) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(setter, value)

    threading.Thread(target=body, name=f"crishim-{what}", daemon=True).start()
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        done.exception()  # seen: the caller is told of the cancellation instead
        raise cancelled
    return done.result()


async def enable_ipv6(path: str, then: Mapping[str, str] | None = None) -> None:
    """Switch IPv6 on in the namespace pinned at `path`, then write the pod's own net.* settings `then`.

    Engines switch it off (disable_ipv6 of all, default and lo) in a namespace without a network of theirs.  The pod's
    settings come last, in the order given, because `all` overwrites each interface's.  A kernel without IPv6: nothing
    to switch.

    Names as sysctl(8) takes them: dotted (`net.ipv4.ip_forward`), or with slashes where a name holds dots
    (`net/ipv4/conf/eth0.1/forwarding`).  Raises NetnsError naming the setting; those before it stay written.
    """
    settings = _settings_of(then or {})
    await in_netns(path, lambda: _enable_ipv6(path, settings))


def _settings_of(sysctls: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(_sysctl_file(key), value) for key, value in sysctls.items()]


def _enable_ipv6(path: str, then: Iterable[tuple[str, str]]) -> None:
    write_settings(path, ipv6_settings())
    write_settings(path, then)


def ipv6_settings() -> list[tuple[str, str]]:
    """Settings that switch IPv6 on in the calling thread's namespace; none where it is on, or the kernel has none."""
    return [(name, "0") for name in _IPV6_SWITCHES if _is_set(name)]


def _is_set(name: str) -> bool:
    try:
        with open(f"/proc/sys/{name}", encoding="ascii") as file:
            return file.read().strip() != "0"
    except FileNotFoundError:
        return False


def write_settings(path: str, settings: Iterable[tuple[str, str]]) -> None:
    """Write settings (files below /proc/sys) of the calling thread's namespaces.  Raises NetnsError naming the setting.

    `path` says in messages which namespace it is.
    """
    for name, value in settings:
        try:
            descriptor = os.open(f"/proc/sys/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, value.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            setting = name.replace("/", ".")
            reason = f"the setting {setting} cannot be made {value!r} in {path}: {error.strerror}"
            raise NetnsError(reason, path=path, setting=setting) from error


def _sysctl_file(key: str) -> str:
    name = sysctl_file(key)
    if not name.startswith("net/"):
        raise NetnsError(f"{key!r} is not a setting of a network namespace", setting=key)
    return name


def sysctl_file(key: str) -> str:
    """Return the file below /proc/sys of a setting; raises NetnsError for what cannot be the name of one."""
    first = next((character for character in key if character in "./"), "")
    name = key if first == "/" else key.translate(str.maketrans("./", "/."))
    parts = name.split("/")
    shortest = 3 if parts[0] == "net" else 2
    if len(parts) < shortest or any(part in ("", ".", "..") for part in parts) or "\0" in name:
        raise NetnsError(f"{key!r} is not a setting of a network namespace", setting=key)
    return name
