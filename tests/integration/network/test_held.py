"""Namespaces that no process holds, as the kernel sees them."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crishim.errors import NetnsError
from crishim.network import held, mounts
from crishim.network.held import Kind, Wanted
from crishim.network.namespaces import KernelNamespaces

pytestmark = pytest.mark.root

ALL: frozenset[Kind] = frozenset(("network", "ipc", "uts"))


@pytest.fixture
def kept(pin_dir: str, tmp_path: Path) -> Iterator[KernelNamespaces]:
    """Where pods are made; whatever a test leaves is let go."""
    namespaces = KernelNamespaces(pin_dir, str(tmp_path / "pods"))
    yield namespaces
    for name in held.list_folders(str(tmp_path / "pods")):
        held.unmake_sync(namespaces.path(name), namespaces.folder(name))


def mounted(below: Path | str) -> list[str]:
    """Mount points below a folder."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        points = [line.split(" ")[4] for line in file]
    return [point for point in points if point.startswith(f"{below}/")]


def enter(kept: KernelNamespaces, name: str, script: str) -> str:
    """What a shell prints in the pod's namespaces."""
    folder = kept.folder(name)
    command = ["nsenter", f"--net={kept.path(name)}", f"--ipc={folder}/ipc", f"--uts={folder}/uts", "sh", "-c", script]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def begin(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a process."""
    return subprocess.Popen(command, stdout=subprocess.PIPE)


async def test_all_of_a_pod(kept: KernelNamespaces) -> None:
    sysctls = {"net.ipv4.ip_forward": "1", "kernel.msgmax": "9000", "fs.mqueue.msg_max": "20"}
    before = {name: Path(f"/proc/sys/{name.replace('.', '/')}").read_text() for name in sysctls}
    wanted = Wanted(kinds=ALL, hostname="a-name", sysctls=sysctls, shm_size=1 << 20, files={"hosts": "text\n"})
    await kept.make("a", wanted)
    said = enter(kept, "a", "hostname; cd /proc/sys; cat net/ipv4/ip_forward kernel/msgmax fs/mqueue/msg_max").split()
    assert said == ["a-name", "1", "9000", "20"]
    assert "127.0.0.1/8" in enter(kept, "a", "ip -br address show up")
    assert {name: Path(f"/proc/sys/{name.replace('.', '/')}").read_text() for name in sysctls} == before
    assert os.uname().nodename != "a-name"
    folder = Path(kept.folder("a"))
    assert (folder / "hosts").read_text() == "text\n"
    assert (folder / "hosts").stat().st_mode & 0o777 == 0o644
    assert (folder.stat().st_mode & 0o777, folder.stat().st_gid) == (0o710, 0), "nobody's on the host but root's"
    shm = os.statvfs(folder / "shm")
    assert (shm.f_blocks * shm.f_frsize, (folder / "shm").stat().st_mode & 0o7777) == (1 << 20, 0o1777)
    assert await kept.holds("a", ALL)
    assert list(await kept.pins()) == ["a"]


@pytest.mark.parametrize("writable", [True, False])
async def test_the_first_view_of_sys_decides(kept: KernelNamespaces, writable: bool) -> None:
    await kept.make("a", Wanted(kinds=ALL, hostname="a", writable_sys=writable))
    script = (
        "export LIBMOUNT_UTAB=/dev/null; mount -t sysfs -o ro one /sys; mount -t sysfs two /mnt;"
        " cd /mnt/class/net/lo; echo 1 > ifalias && echo w"
    )
    command = ["unshare", "--mount", "sh", "-c", f"({script}) 2> /dev/null; true"]
    said = enter(kept, "a", " ".join(map(shlex.quote, command)))
    assert said == ("w\n" if writable else "")


async def test_unpin_lets_all_go_and_may_come_again(kept: KernelNamespaces, pin_dir: str, tmp_path: Path) -> None:
    await kept.make("a", Wanted(kinds=ALL, hostname="a"))
    Path(kept.folder("a"), "shm", "left").write_text("by a container")
    for _ in range(2):
        await kept.unpin("a")
        assert (os.listdir(pin_dir), os.listdir(tmp_path / "pods")) == ([], [])
        assert mounted(tmp_path / "pods") == []
        assert not await kept.holds("a", ALL)


FAILING: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "folder": lambda patch: patch.setattr(mounts, "mount_tmpfs", _failing(mounts.mount_tmpfs, 1)),
    "namespaces": lambda patch: patch.setattr(held, "_unshare", _failing(held._unshare, 1)),
    "hostname": lambda patch: patch.setattr(held, "_set_hostname", _failing(held._set_hostname, 1)),
    "loopback": lambda patch: patch.setattr(held, "_raise_loopback", _failing(held._raise_loopback, 1)),
    "first pin": lambda patch: patch.setattr(mounts, "mount", _failing(mounts.mount, 1)),
    "second pin": lambda patch: patch.setattr(mounts, "mount", _failing(mounts.mount, 2)),
    "third pin": lambda patch: patch.setattr(mounts, "mount", _failing(mounts.mount, 3)),
    "shared memory": lambda patch: patch.setattr(mounts, "mount_tmpfs", _failing(mounts.mount_tmpfs, 2)),
    "files": lambda patch: patch.setattr(held, "_write", _failing(held._write, 1)),
}


def _failing(function: Callable[..., None], at: int) -> Callable[..., None]:
    """The function, which refuses the call of this number."""
    calls = 0

    def call(*arguments: object) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            raise (
                OSError(12, "no memory, says the test") if function.__module__ == mounts.__name__ else NetnsError("no")
            )
        function(*arguments)

    return call


@pytest.mark.parametrize("step", FAILING)
async def test_nothing_is_left_of_what_failed(
    kept: KernelNamespaces, pin_dir: str, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    FAILING[step](monkeypatch)
    with pytest.raises(NetnsError):
        await kept.make("a", Wanted(kinds=ALL, hostname="a", files={"hosts": ""}))
    assert (os.listdir(pin_dir), os.listdir(tmp_path / "pods")) == ([], [])
    assert mounted(tmp_path / "pods") == []
    await kept.make("a", Wanted(kinds=ALL, hostname="a", files={"hosts": ""}))


@pytest.mark.parametrize(
    ("sysctls", "kinds"),
    [
        ({"net.ipv4.nonsense": "1"}, ALL),
        ({"net.ipv4.ip_forward": "x"}, ALL),
        ({"net.ipv4.ip_forward": "1"}, frozenset(("ipc",))),
        ({"kernel.msgmax": "1"}, frozenset(("network", "uts"))),
        ({"kernel.hostname": "x"}, ALL),
        ({"vm.swappiness": "1"}, ALL),
        ({"kernel.shm/../hostname": "x"}, ALL),
    ],
)
async def test_settings_that_are_not_the_pods(
    kept: KernelNamespaces, tmp_path: Path, sysctls: dict[str, str], kinds: frozenset[Kind]
) -> None:
    with pytest.raises(NetnsError):
        await kept.make("a", Wanted(kinds=kinds, sysctls=sysctls))
    assert list(await kept.pins()) == []


@pytest.mark.parametrize("gone", ["network", "ipc", "uts", "shm", "folder"])
async def test_what_is_gone_is_missed(kept: KernelNamespaces, gone: str) -> None:
    await kept.make("a", Wanted(kinds=ALL, hostname="a"))
    folder = kept.folder("a")
    path = {"network": kept.path("a"), "folder": folder}.get(gone, f"{folder}/{gone}")
    mounts.detach(path)
    assert not await kept.holds("a", ALL)
    await kept.unpin("a")
    assert list(await kept.pins()) == []


@pytest.mark.parametrize("kinds", [frozenset(), frozenset(("ipc",)), frozenset(("network", "uts"))])
async def test_pods_that_share_with_the_host(kept: KernelNamespaces, kinds: frozenset[Kind]) -> None:
    await kept.make("a", Wanted(kinds=kinds, hostname="a" if "uts" in kinds else ""))
    assert await kept.holds("a", kinds)
    assert set(kept.strangers("a", kinds, os.getpid())) == kinds, "we live in the host's"
    mounts.detach(kept.folder("a"))  # as a boot does it
    assert not await kept.holds("a", kinds)


async def test_strangers(kept: KernelNamespaces) -> None:
    await kept.make("a", Wanted(kinds=ALL, hostname="a"))
    folder = kept.folder("a")
    assert set(kept.strangers("a", ALL, os.getpid())) == ALL
    command = ["nsenter", f"--net={kept.path('a')}", f"--uts={folder}/uts", "sh", "-c", "echo; exec sleep 1000"]
    with begin(command) as process:
        try:
            assert process.stdout is not None
            process.stdout.read(1)
            assert kept.strangers("a", ALL, process.pid) == ("ipc",)
            # To us, who live in none of the pod's, its host may be another than ours.
            assert kept.strangers("a", frozenset(), process.pid) == ("network", "uts")
            assert kept.strangers("a", frozenset(), process.pid, str(process.pid)) == ()
        finally:
            process.kill()
    assert kept.strangers("a", ALL, process.pid) == (), "it has ended"
