"""File systems for containers with a user namespace: the same files, with owners shifted into it.

Files on disk keep their owners. What a container sees is a clone of a mount to which the kernel gives the mappings of
the pod's user namespace (mount_setattr(2), MOUNT_ATTR_IDMAP): uid 0 on disk is uid 0 inside. An overlay cannot be
cloned so; therefore the root file system is a second overlay, of clones of the layers of the engine's (Linux 5.19). Its
upper layer is the engine's own, shifted as well, so that what the container writes lies there as the engine wants it.

All of this waits for the kernel: to be called in a thread.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from crishim.errors import FrontFailed
from crishim.network import netns

T = TypeVar("T")

_NR_OPEN_TREE, _NR_MOVE_MOUNT, _NR_MOUNT_SETATTR = 428, 429, 442  # the same on every architecture
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH = 4
_MOUNT_ATTR_IDMAP = 0x00100000
_CLONE_FS = 0x200
_CAPABILITY_VERSION = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


@dataclass(frozen=True, slots=True)
class Layers:
    """Of what an engine's overlay is made: absolute paths, the uppermost of the lower ones first."""

    lower: tuple[str, ...]
    upper: str


def find_layers(merged: str, mountinfo: str) -> Layers:
    """The layers of the overlay that is mounted at `merged`, from the text of a mount table. Raises FrontFailed."""
    for line in reversed(mountinfo.splitlines()):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if before.split(" ")[4] == merged and kind == "overlay":
            parts = dict(part.partition("=")[::2] for part in options.split(","))
            upper = parts.get("upperdir", "")
            # Engines say them from their own folder, to have room for more; containerd only the lower ones, from the
            # folder of all snapshots, below which the upper one lies, too.
            of_engine = os.path.dirname(os.path.dirname(merged))
            home = os.path.dirname(os.path.dirname(upper)) if os.path.isabs(upper) else of_engine
            lower = tuple(os.path.join(home, layer) for layer in parts.get("lowerdir", "").split(":") if layer)
            if lower and upper:
                return Layers(lower, os.path.join(home, upper))
    raise FrontFailed(f"no overlay is mounted at {merged}, whose owners could be shifted")


def make_root(merged: str, place: str, userns: str, owner: tuple[int, int]) -> str:
    """Mount the files of the engine's overlay at `merged` with owners shifted into the user namespace at `userns`, and
    return where. `place`: a folder for it; what was there before goes. `owner`: user and group on the host that are
    root in there. Raises FrontFailed, and leaves nothing then."""
    layers = find_layers(merged, Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
    release(place)
    root = os.path.join(place, "root")
    try:
        os.mkdir(place, 0o711)  # never the pod's folder again, which may have gone
        os.mkdir(root, 0o711)
        _in_thread(lambda: _mount_overlay(layers, place, root, userns, owner))
    except OSError as error:
        release(place)
        raise FrontFailed(f"the owners of {merged} cannot be shifted: {error.filename}: {error.strerror}") from error
    return root


def shift(source: str, target: str, userns: str) -> None:
    """Show a file or folder of the host at `target`, with owners shifted. Raises FrontFailed."""
    try:
        if os.path.isdir(source):
            os.mkdir(target, 0o711)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
        _clone(source, target, userns, _AT_RECURSIVE)
    except OSError as error:
        raise FrontFailed(f"the owners of {source} cannot be shifted: {error.strerror}") from error


def release(place: str) -> None:
    """Take away all that is mounted below a folder of ours, and the folder; none is no error. Raises OSError."""
    if not os.path.isdir(place):
        return
    with os.scandir(place) as entries:
        names = [entry.path for entry in entries]
    for path in names:
        netns.take_off(path)  # first: nothing that is mounted there is ours to look into
        if os.path.isdir(path):
            os.rmdir(path)
        else:
            os.unlink(path)
    os.rmdir(place)


def _mount_overlay(layers: Layers, place: str, root: str, userns: str, owner: tuple[int, int]) -> None:
    """By a thread with a working directory of its own: the paths are short then, as all must fit into a page.

    And as the user namespace's root (`owner`): an overlay works on its layers as whoever mounted it, and the host's
    root is nobody in a clone with shifted owners.
    """
    if _libc.unshare(_CLONE_FS) != 0:
        _fail(place)
    os.chdir(place)
    home, upper = os.path.split(layers.upper)
    work = os.path.join(home, "crishim-work")
    os.makedirs(work, 0o700, exist_ok=True)
    clones = {"u": home, **{str(number): layer for number, layer in enumerate(layers.lower)}}
    made: list[str] = []
    try:
        for name, source in clones.items():
            os.mkdir(name, 0o700)
            made.append(name)
            _clone(os.path.realpath(source), name, userns)
        lower = ":".join(str(number) for number in range(len(layers.lower)))
        _become(root, *owner)
        options = f"lowerdir={lower},upperdir=u/{upper},workdir=u/crishim-work,index=off"
        if _libc.mount(b"overlay", os.fsencode(root), b"overlay", 0, options.encode()) != 0:
            _fail(root)
    finally:
        _become(root, 0, 0)
        for name in made:  # the overlay keeps what it needs of them
            netns.take_off(name)
            os.rmdir(name)


def _become(path: str, uid: int, gid: int) -> None:
    """Make files as this user from now on, with all that root may (this thread; setfsuid(2), capset(2))."""
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if _libc.capget(header, sets) != 0:
        _fail(path)
    sets[0], sets[3] = sets[1], sets[4]  # effective: all that is permitted
    if _libc.capset(header, sets) != 0:
        _fail(path)


def _clone(source: str, target: str, userns: str, flags: int = 0) -> None:
    """`flags`: _AT_RECURSIVE for what is mounted below as well, whose owners stay, as OCI runtimes do it."""
    namespace = os.open(userns, os.O_RDONLY | os.O_CLOEXEC)
    tree = -1
    try:
        tree = _call(
            _NR_OPEN_TREE, source, _AT_FDCWD, os.fsencode(source), _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | flags
        )
        attributes = _MountAttr(attr_set=_MOUNT_ATTR_IDMAP, userns_fd=namespace)
        size = ctypes.c_size_t(ctypes.sizeof(attributes))
        _call(_NR_MOUNT_SETATTR, source, tree, b"", _AT_EMPTY_PATH, ctypes.byref(attributes), size)
        _call(_NR_MOVE_MOUNT, target, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    finally:
        os.close(namespace)
        if tree >= 0:
            os.close(tree)


def _call(number: int, path: str, *arguments: object) -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        _fail(path)
    return result


def _fail(path: str) -> None:
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code), path)


def _in_thread(work: Callable[[], T]) -> T:
    """Run it in a thread that ends afterwards, as it leaves the thread different."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="shift owners")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
