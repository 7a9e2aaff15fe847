"""A cgroup of our own in every hierarchy, so that all that a test engine makes is below it and can be removed.

Version 1: a child of the cgroup that we are in, per hierarchy.  Version 2: a child of the root, because a cgroup that
holds processes (a login session's) cannot hand controllers on; the processes live in its leaf ``init`` for the same
reason.  Rule: Documentation/admin-guide/cgroup-v2.rst, "No Internal Process Constraint".
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from tests.env import linux

LEAF = "init"
EVACUATED = "crishim-test-evacuated"
_ADDED = "controllers-added"
_PLACES = "cgroups.json"


@dataclass(frozen=True)
class Hierarchy:
    """One mounted cgroup hierarchy and our place in it."""

    mount_point: Path
    options: str
    """Mount options that name the hierarchy (version 1), empty for version 2."""
    unified: bool
    ours: Path
    """Our cgroup as seen from outside."""


def _own_paths() -> dict[str, str]:
    """Controller list (``""`` for version 2) to this process's path, from /proc/self/cgroup."""
    paths = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        paths[controllers] = path
    return paths


def hierarchies(name: str) -> list[Hierarchy]:
    """Every mounted hierarchy, with our cgroup ``name`` in it (not made yet)."""
    own = _own_paths()
    found = []
    for point, fstype, root, options in linux.mounts():
        mount_point = Path(point)
        if fstype == "cgroup2":
            found.append(Hierarchy(mount_point, "", True, mount_point / name))
        elif fstype == "cgroup":
            words = options.split(",")
            controllers = next((c for c in own if c and set(c.split(",")) <= set(words)), None)
            if controllers is None:
                raise RuntimeError(f"no line of /proc/self/cgroup belongs to {point}")
            inside = own[controllers]
            if root != "/" and inside.startswith(root):  # the mount shows a part of the hierarchy only
                inside = inside[len(root) :]
            wanted = ["none", controllers] if controllers.startswith("name=") else [controllers]
            found.append(Hierarchy(mount_point, ",".join(wanted), False, mount_point / inside.lstrip("/") / name))
    return found


def save(places: list[Hierarchy], notes: Path) -> None:
    """Note our places in the folder ``notes``, before they are made: whoever removes them may be in other cgroups."""
    records = [
        {
            "mount_point": str(place.mount_point),
            "options": place.options,
            "unified": place.unified,
            "ours": str(place.ours),
        }
        for place in places
    ]
    (notes / _PLACES).write_text(json.dumps(records))


def load(notes: Path) -> list[Hierarchy]:
    """What ``save`` noted; nothing if it never did."""
    if not (notes / _PLACES).exists():
        return []
    return [
        Hierarchy(Path(record["mount_point"]), record["options"], record["unified"], Path(record["ours"]))
        for record in json.loads((notes / _PLACES).read_text())
    ]


def create(hierarchy: Hierarchy, notes: Path) -> None:
    """Make our cgroup.  ``notes`` is a folder that keeps, for ``remove``, what was changed above it.

    Version 1 cpusets start out empty: ours gets its parent's CPUs and memory nodes.
    """
    hierarchy.ours.mkdir()
    if hierarchy.unified:
        _delegate(hierarchy, notes)
        return
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (hierarchy.ours / file).exists():
            (hierarchy.ours / file).write_text((hierarchy.ours.parent / file).read_text())


def _delegate(hierarchy: Hierarchy, notes: Path) -> None:
    """Version 2: have the root hand every controller to its children; note which we added."""
    control = hierarchy.mount_point / "cgroup.subtree_control"
    on = control.read_text().split()
    for controller in (hierarchy.mount_point / "cgroup.controllers").read_text().split():
        if controller in on:
            continue
        try:
            control.write_text(f"+{controller}")
        except OSError as error:
            if error.errno != errno.EBUSY:
                continue  # cannot be handed on here (cpu, beside real-time processes): the engine says what it misses
            # Not the true root (we are in a container), and processes are in it: they wait in a leaf until remove().
            _move(hierarchy.mount_point, hierarchy.mount_point / EVACUATED)
            control.write_text(f"+{controller}")
        with (notes / _ADDED).open("a") as added:
            added.write(f"{controller}\n")


def _move(source: Path, target: Path) -> None:
    """Move all processes from one cgroup to another, which is made if missing."""
    target.mkdir(exist_ok=True)
    for _ in range(10):  # a process may fork while we look
        pids = (source / "cgroup.procs").read_text().split()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (target / "cgroup.procs").write_text(pid)
        if not pids:
            return


def join(hierarchy: Hierarchy) -> None:
    """Move this process into our cgroup."""
    (hierarchy.ours / "cgroup.procs").write_text(str(os.getpid()))


def settle(hierarchy: Hierarchy) -> None:
    """After the cgroup namespace was made (its root is our cgroup): version 2 processes go to the leaf, and our cgroup
    hands its controllers on."""
    if not hierarchy.unified:
        return
    leaf = hierarchy.ours / LEAF
    leaf.mkdir()
    (leaf / "cgroup.procs").write_text(str(os.getpid()))
    for controller in (hierarchy.ours / "cgroup.controllers").read_text().split():
        (hierarchy.ours / "cgroup.subtree_control").write_text(f"+{controller}")


def mount_inside(hierarchy: Hierarchy) -> None:
    """In the new cgroup and mount namespaces: mount the hierarchy, whose root is now our cgroup, where it was."""
    hierarchy.mount_point.mkdir(parents=True, exist_ok=True)
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    kind = "cgroup2" if hierarchy.unified else "cgroup"
    linux.mount(kind, hierarchy.mount_point, kind, flags, hierarchy.options)


def below_mounts() -> list[Path]:
    """Every cgroup of every mounted hierarchy but the roots."""
    return [
        Path(parent, name)
        for point, fstype, *_ in linux.mounts()
        if fstype in {"cgroup", "cgroup2"}
        for parent, names, _ in os.walk(point)
        for name in names
    ]


def pids(cgroup: Path) -> list[int]:
    """The processes in it; none when it is gone."""
    try:
        return [int(pid) for pid in (cgroup / "cgroup.procs").read_text().split()]
    except FileNotFoundError:
        return []


def remove_tree(top: Path, patience: float = 5.0) -> None:
    """Remove a cgroup and all below it; waits up to ``patience`` seconds for ending processes to leave.

    Raises OSError when one is still in use then.
    """
    deadline = time.monotonic() + patience
    while top.exists():
        try:
            for folder, _, _ in os.walk(top, topdown=False):
                os.rmdir(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def remove(hierarchy: Hierarchy, notes: Path) -> None:
    """Remove our cgroup and take back what ``create`` changed above it.  Raises OSError when it is still in use."""
    remove_tree(hierarchy.ours)
    if not hierarchy.unified:
        return
    for controller in (notes / _ADDED).read_text().split() if (notes / _ADDED).exists() else ():
        with contextlib.suppress(OSError):  # somebody else's cgroup uses it by now
            (hierarchy.mount_point / "cgroup.subtree_control").write_text(f"-{controller}")
    if (hierarchy.mount_point / EVACUATED).exists():
        _move(hierarchy.mount_point / EVACUATED, hierarchy.mount_point)
        remove_tree(hierarchy.mount_point / EVACUATED)
