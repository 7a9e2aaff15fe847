"""Run a command in a test world: ``python -m tests.env.world -- COMMAND ...`` (as root; see README.md).

A world is a set of namespaces (PID, mount, network, IPC, UTS, cgroup) in which the command, its engines, registries
and bridges live.  Nothing in it reaches the machine's network, mounts, /run, /etc, /var/lib or cgroups, and when the
command ends, or anything on the way up is killed, the kernel ends every process in it.

Three processes: the *outer* one stays outside and cleans up; the *gate* joins the cgroups and makes the namespaces; the
*init* is PID 1 in there, mounts what the command shall see, starts it, reaps, and passes its exit status on.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tests.env import cgroups, linux, machine

VARIABLE = "CRISHIM_TEST_WORLD"
"""Environment variable that holds the world's folder, inside a world."""
PREFIX = "crishim-test-"
PARENT = Path(os.environ.get("CRISHIM_TEST_PARENT", "/var/tmp"))
"""Where worlds' folders are made.  Must be short (sockets' paths have 107 characters) and on a disk with room."""
GRACE = 30
"""Seconds that the command has to end after a SIGTERM (it is sent SIGINT) before its world is ended."""

_NAMESPACES = (
    linux.CLONE_NEWNS
    | linux.CLONE_NEWCGROUP
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNET
)


def folder() -> Path | None:
    """The folder of the world that this process is in; None outside."""
    value = os.environ.get(VARIABLE)
    return Path(value) if value else None


# ---------------------------------------------------------------- outer


@contextlib.contextmanager
def _new_folder() -> Iterator[Path]:
    """A fresh folder, locked as long as its world lives, so that a later world can tell what a killed one left."""
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PARENT))
    path.chmod(0o755)  # users in containers pass through it
    lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        (path / "tmp").mkdir(mode=0o1777)
        yield path
    finally:
        _remove(path)
        os.close(lock)


def _remove(path: Path) -> None:
    """Remove a world's cgroups and folder.  Raises OSError naming what would not go."""
    for hierarchy in cgroups.load(path):
        cgroups.remove(hierarchy, path)
    shutil.rmtree(path)


def sweep() -> None:
    """Remove what worlds left that were killed together with their outer process (their lock is free)."""
    for path in PARENT.glob(f"{PREFIX}*"):
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
            except BlockingIOError:
                pass  # alive
            finally:
                os.close(lock)


def run(command: Sequence[str]) -> int:
    """Run a command in a new world and return its exit status (128 + n when signal n ended it).

    Then the machine is compared with what it was before (``machine.judged``).  Raises OSError where namespaces or
    cgroups cannot be made.
    """
    sweep()
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(_new_folder())

        def work() -> int:
            with stack.pop_all(), _without_containerds_folder():  # they go before the machine is looked at
                return _run(path, command)

        return machine.judged(f"{VARIABLE}={path}", work)


@contextlib.contextmanager
def _without_containerds_folder() -> Iterator[None]:
    """Take away the empty folders that every containerd makes in /opt, whatever it is told, if they were not there."""
    top = Path("/opt/containerd")
    there = top.exists()
    try:
        yield
    finally:
        if not there:
            for folder in (*top.glob("*"), top):
                with contextlib.suppress(OSError):  # not there, or somebody's by now
                    folder.rmdir()


def _run(path: Path, command: Sequence[str]) -> int:
    places = cgroups.hierarchies(path.name)
    cgroups.save(places, path)
    for place in places:
        cgroups.create(place, path)
    outer = os.getpid()
    gate = os.fork()
    if gate == 0:
        _leave(lambda: _gate(outer, path, places, command))
    _forward(gate)
    return _status(_wait(gate))


def _leave(body: Callable[[], int]) -> NoReturn:
    """End this forked process with what ``body`` returns; an exception is shown and makes it 125."""
    status = 125
    try:
        status = body()
    except BaseException as error:
        print(f"test world: {error}", file=sys.stderr, flush=True)
    finally:
        sys.stdout.flush()
        os._exit(status)


def _forward(pid: int) -> None:
    """Ignore SIGINT (a terminal sends it to the command, too) and pass SIGTERM and SIGHUP on."""

    def passing(signum: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, passing)
    signal.signal(signal.SIGHUP, passing)


def _wait(pid: int) -> int:
    return os.waitpid(pid, 0)[1]


def _status(wait_status: int) -> int:
    code = os.waitstatus_to_exitcode(wait_status)
    return code if code >= 0 else 128 - code


# ---------------------------------------------------------------- gate


def _gate(outer: int, path: Path, places: list[cgroups.Hierarchy], command: Sequence[str]) -> int:
    """Join our cgroups, make the namespaces, start init in them."""
    linux.die_with_parent(signal.SIGKILL)
    if os.getppid() != outer:
        return 125
    for hierarchy in places:
        cgroups.join(hierarchy)
    linux.unshare(_NAMESPACES)
    for hierarchy in places:
        cgroups.settle(hierarchy)
    init = os.fork()
    if init == 0:
        _leave(lambda: _init(path, places, command))
    _forward(init)
    return _status(_wait(init))


# ---------------------------------------------------------------- init


def _init(path: Path, places: list[cgroups.Hierarchy], command: Sequence[str]) -> int:
    """PID 1 of the world."""
    linux.die_with_parent(signal.SIGKILL)
    _mounts(path, places)
    linux.loopback_up()
    environment = os.environ | {VARIABLE: str(path), "TMPDIR": str(path / "tmp")}
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID"):
        environment.pop(name, None)
    child: subprocess.Popen[bytes] | None = None
    asked = False

    def ending(signum: int, _: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = True
            signal.alarm(GRACE)
            ask()

    def ask() -> None:
        if asked and child is not None:
            child.send_signal(signal.SIGINT)  # pytest ends its fixtures on this one

    def give_up(signum: int, _: FrameType | None) -> None:
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, ending)
    signal.signal(signal.SIGHUP, ending)
    signal.signal(signal.SIGALRM, give_up)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the command's; to PID 1 itself it does nothing
    child = subprocess.Popen(command, env=environment)
    ask()
    while True:  # also reaps what was orphaned: containerd's shims, killed servers' children
        pid, wait_status = os.wait()
        if pid == child.pid:
            return _status(wait_status)


def _mounts(path: Path, places: list[cgroups.Hierarchy]) -> None:
    """Give the world a machine of its own to look at: see the table in README.md."""
    quiet = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    _replace("proc", "/proc", quiet)

    network_files = {name: _text(Path("/etc") / name) for name in ("resolv.conf", "hosts", "hostname")}
    layers = path / "layers"
    layers.mkdir()
    linux.mount("tmpfs", layers, "tmpfs", data="mode=755")
    for lower in ("/etc", "/var/lib"):
        upper, work = layers / lower[1:] / "upper", layers / lower[1:] / "work"
        upper.mkdir(parents=True)
        work.mkdir()
        try:
            linux.mount("overlay", lower, "overlay", data=f"lowerdir={lower},upperdir={upper},workdir={work}")
        except OSError:  # the machine's is an overlay on an overlay, and the kernel stacks no more
            if lower == "/etc":
                shutil.copytree(lower, upper, symlinks=True, dirs_exist_ok=True)
            linux.mount(str(upper), lower, None, linux.MS_BIND)
    for name, text in network_files.items():  # links into /run, or mounts that the overlay does not show
        file = Path("/etc") / name
        file.unlink(missing_ok=True)
        file.write_text(text)

    _replace("tmpfs", "/run", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
    Path("/run/lock").mkdir(mode=0o1777)
    Path("/run/netns").mkdir()
    _replace("tmpfs", "/dev/shm", linux.MS_NOSUID | linux.MS_NODEV, "mode=1777")
    if Path("/dev/mqueue").is_dir():
        _replace("mqueue", "/dev/mqueue", quiet)

    names = {link.name: os.readlink(link) for link in Path("/sys/fs/cgroup").glob("*") if link.is_symlink()}
    _replace("sysfs", "/sys", quiet)  # a sysfs shows the links of the namespace it was mounted in
    if places and not any(h.mount_point == Path("/sys/fs/cgroup") for h in places):
        linux.mount("tmpfs", "/sys/fs/cgroup", "tmpfs", quiet, "mode=755")
    for hierarchy in sorted(places, key=lambda h: len(h.mount_point.parts)):
        cgroups.mount_inside(hierarchy)
    for name, target in names.items():  # cpu -> cpu,cpuacct
        os.symlink(target, Path("/sys/fs/cgroup") / name)

    if not _overlay_works(path / "tmp"):  # a container's own overlay, say: engines' folders then lie in memory
        linux.mount("tmpfs", path / "tmp", "tmpfs", data="mode=1777")
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_SHARED)  # as systemd leaves a machine


def _replace(fstype: str, where: str, flags: int, data: str = "") -> None:
    """Put a fresh filesystem in place of all that is mounted on and below ``where``: programs that look a filesystem up
    in the list of mounts must not find the machine's first."""
    with contextlib.suppress(OSError):  # EINVAL: nothing is mounted here any more
        while True:
            linux.umount(where)
    linux.mount(fstype, where, fstype, flags, data)


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _overlay_works(where: Path) -> bool:
    """Whether an overlay can have its upper layer in ``where``."""
    with tempfile.TemporaryDirectory(dir=where) as top:
        parts = {name: os.path.join(top, name) for name in ("lower", "upper", "work", "merged")}
        for part in parts.values():
            os.mkdir(part)
        options = "lowerdir={lower},upperdir={upper},workdir={work}".format_map(parts)
        try:
            linux.mount("overlay", parts["merged"], "overlay", data=options)
        except OSError:
            return False
        linux.umount(parts["merged"])
        return True


def main(arguments: Sequence[str]) -> int:
    """Entry point.  Exit status: the command's; 2 for wrong usage, 125 when no world could be made."""
    command = list(arguments[1:] if arguments[:1] == ["--"] else arguments)
    if not command:
        print("usage: python -m tests.env.world -- COMMAND ...", file=sys.stderr)
        return 2
    if os.geteuid() != 0:
        print("test world: needs root", file=sys.stderr)
        return 125
    if folder():
        return subprocess.run(command, check=False).returncode
    try:
        return run(command)
    except OSError as error:
        print(f"test world: {error}", file=sys.stderr)
        return 125


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
