"""A read-only file system made of an image's layers: what the kernel is asked for, in calls that may wait.

An overlay without an upper layer cannot be made writable by anybody (the kernel refuses the remount, EROFS), and shows
the layers as the engine's own containers see them: with what upper ones take away from lower ones.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Sequence
from contextlib import ExitStack

from crishim.errors import ImageVolumeMountFailed
from crishim.network import mounts

_OPENAT2 = 437  # the same number on every architecture
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x02, 0x10
_STACKED_AT_MOST = 16
_FEWEST_LAYERS = 2  # the kernel takes no overlay of one

_libc = ctypes.CDLL(None, use_errno=True)


def show(target: str, layers: Sequence[str], empty: str, daemon_pid: int) -> None:
    """Mount the layers (the topmost first) on the folder `target`, which is made; nothing to do where that was done.

    `empty`: a folder of ours below which empty layers are made. `daemon_pid`: the engine's process, 0 if unknown.
    Raises ImageVolumeMountFailed, and nothing is mounted then, also where the engine would not see it.
    """
    try:
        os.makedirs(target, 0o755, exist_ok=True)
        if is_shown(target):
            return
        with ExitStack() as stack:
            # By descriptor: a hundred paths of layers would not fit into the page that mount(2) has for options.
            lower = [_open(layer, stack) for layer in layers]
            while len(lower) < _FEWEST_LAYERS:
                folder = os.path.join(empty, str(len(lower)))
                os.makedirs(folder, 0o755, exist_ok=True)
                lower.append(_open(folder, stack))
            options = ":".join(f"/proc/self/fd/{descriptor}" for descriptor in lower)
            mounts.mount_read_only("overlay", target, f"lowerdir={options}")
    except OSError as error:
        where = error.filename or target
        raise ImageVolumeMountFailed(f"the image's layers cannot be shown: {where}: {error.strerror}") from error
    if not _seen_by(daemon_pid, target):
        hide(target)
        raise ImageVolumeMountFailed(
            f"the engine does not see what is mounted at {target}: crishim must run in the engine's mount namespace, "
            "or have that folder with bidirectional (rshared) propagation"
        )


def _open(layer: str, stack: ExitStack) -> int:
    descriptor = os.open(layer, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor


def _seen_by(pid: int, target: str) -> bool:
    """Whether process `pid` finds at that path what we find there."""
    theirs = f"/proc/{pid or 1}/root{target}"
    try:
        ours, seen = os.stat(target), os.stat(theirs)
    except OSError:
        return False
    return (ours.st_dev, ours.st_ino) == (seen.st_dev, seen.st_ino)


def is_shown(target: str) -> bool:
    """Whether something is mounted on `target`. Raises ImageVolumeMountFailed where that cannot be told."""
    try:
        return mounts.mount_id(target) != mounts.mount_id(os.path.dirname(target))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ImageVolumeMountFailed(f"the view {target} cannot be looked at: {error.strerror}") from error


def hide(target: str) -> None:
    """Take the view off `target` and remove the folder; containers that have it mounted keep it. Idempotent.

    Raises ImageVolumeMountFailed.
    """
    try:
        for _ in range(_STACKED_AT_MOST):
            try:
                mounts.detach(target)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno == errno.EINVAL:  # no mount (any more)
                    break
                raise
        os.rmdir(target)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ImageVolumeMountFailed(f"the view {target} cannot be taken away: {error.strerror}") from error


def find_inside(root: str, path: str) -> str:
    """The folder or file `path` of the view at `root`, as a path without symbolic links; they are followed, never out
    of the view. Raises ImageVolumeMountFailed where there is none, or something else.

    An image's content never changes, so what is found stays true.
    """
    try:
        top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = _open_in_root(top, path)
            try:
                mode = os.fstat(found).st_mode
                real = os.readlink(f"/proc/self/fd/{found}")
            finally:
                os.close(found)
        finally:
            os.close(top)
    except OSError as error:
        raise ImageVolumeMountFailed(f"the image has no {path!r}: {error.strerror}") from error
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise ImageVolumeMountFailed(f"{path!r} in the image is neither a folder nor a file")
    return real


def _open_in_root(top: int, path: str) -> int:
    """openat2(2) with the folder `top` as root of every link."""
    how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    found: int = _libc.syscall(
        ctypes.c_long(_OPENAT2), ctypes.c_int(top), ctypes.c_char_p(os.fsencode(path)), how, ctypes.c_size_t(len(how))
    )
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return found
