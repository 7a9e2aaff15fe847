"""Pinned namespaces as the kernel sees them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from crishim.errors import NetnsError
from crishim.network import mounts, netns

pytestmark = pytest.mark.root

Holder = Callable[[], "subprocess.Popen[bytes]"]


def inode(path: str) -> int:
    return os.stat(path).st_ino


async def test_a_pinned_namespace_outlives_its_process(pinned: str):
    assert netns.is_pinned(pinned)
    await netns.enable_ipv6(pinned, {"net.ipv4.ip_unprivileged_port_start": "80", "net/ipv4/ip_forward": "1"})
    read = await netns.in_netns(pinned, lambda: Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    assert read == "80\n"
    subprocess.run(["nsenter", f"--net={pinned}", "ip", "link", "set", "lo", "up"], check=True)
    listener = await netns.in_netns(pinned, lambda: socket.create_server(("127.0.0.1", 0)))
    with listener:
        port = listener.getsockname()[1]
        dialled = await netns.in_netns(pinned, lambda: socket.create_connection(("127.0.0.1", port), 5))
        dialled.close()
        with pytest.raises(ConnectionRefusedError):  # we ourselves have not moved
            socket.create_connection(("127.0.0.1", port), 5).close()


async def test_furnish_does_everything_for_a_process_in_its_owners_cgroup(holder: Holder, pin_dir: str):
    process, path, done = holder(), netns.pin_path(pin_dir, "a"), []
    own = Path(f"/proc/{process.pid}/cgroup").read_text().rpartition("/")[2].strip() or "/"
    port = {"net.ipv4.ip_unprivileged_port_start": "81"}
    assert await netns.furnish(process.pid, path, own, port, lambda: done.append("also"))
    assert (done, inode(path)) == (["also"], inode(f"/proc/{process.pid}/ns/net"))
    read = await netns.in_netns(path, lambda: Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    assert read == "81\n"


@pytest.mark.parametrize("owner", ["", "f" * 64])
async def test_furnish_only_pins_what_may_be_a_strangers(holder: Holder, pin_dir: str, owner: str):
    process, path, done = holder(), netns.pin_path(pin_dir, "a"), []
    port = {"net.ipv4.ip_unprivileged_port_start": "81"}
    assert not await netns.furnish(process.pid, path, owner, port, lambda: done.append("also"))
    assert (done, inode(path)) == ([], inode(f"/proc/{process.pid}/ns/net"))
    read = await netns.in_netns(path, lambda: Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    assert read == "1024\n"


async def test_unpin_frees_the_namespace_and_may_come_twice(pinned: str):
    number = inode(pinned)
    await netns.unpin(pinned)
    assert not os.path.exists(pinned)
    await netns.unpin(pinned)
    lsns = subprocess.run(["lsns", "-t", "net", "-n", "-o", "NS"], check=True, capture_output=True, text=True)
    assert str(number) not in lsns.stdout.split()


async def test_pin_again_and_over_another(holder: Holder, pin_dir: str):
    one, two = holder(), holder()
    path = netns.pin_path(pin_dir, "a")
    await netns.pin(one.pid, path)
    await netns.pin(one.pid, path)
    with pytest.raises(NetnsError, match="another"):
        await netns.pin(two.pid, path)
    assert inode(path) == inode(f"/proc/{one.pid}/ns/net")
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        assert sum(line.split(" ")[4] == path for line in file) == 1


async def test_pins_stacked_by_others_all_come_off(holder: Holder, pin_dir: str):
    path = netns.pin_path(pin_dir, "a")
    await netns.pin(holder().pid, path)
    mounts.mount(f"/proc/{holder().pid}/ns/net", path, mounts.MS_BIND)
    await netns.unpin(path)
    assert os.listdir(pin_dir) == []


async def test_unpin_while_the_namespace_is_open(pinned: str):
    descriptor = os.open(pinned, os.O_RDONLY)
    try:
        await netns.unpin(pinned)
        assert not os.path.exists(pinned)
    finally:
        os.close(descriptor)


async def test_stale_file_is_taken_over_or_removed(holder: Holder, pin_dir: str):
    path = Path(netns.pin_path(pin_dir, "a"))
    path.touch()
    await netns.pin(holder().pid, str(path))
    assert netns.is_pinned(str(path))
    await netns.unpin(str(path))
    path.touch()
    await netns.unpin(str(path))
    assert not path.exists()


async def test_what_is_not_ours_is_left_alone(pin_dir: str):
    data = Path(pin_dir, "crishim-data")
    data.write_text("precious")
    folder = Path(pin_dir, "crishim-folder")
    folder.mkdir()
    link = Path(pin_dir, "crishim-link")
    link.symlink_to(data)
    for path in (data, folder, link):
        with pytest.raises(NetnsError):
            await netns.unpin(str(path))
    assert data.read_text() == "precious"
    data.unlink()
    folder.rmdir()
    link.unlink()


async def test_failed_pin_leaves_no_file(holder: Holder, tmp_path: Path):
    with pytest.raises(NetnsError, match="cannot be pinned"):
        await netns.pin(holder().pid, str(tmp_path / "missing" / "crishim-a"))
    assert os.listdir(tmp_path) == []


async def test_ipv6_is_switched_on_unless_the_pod_says_otherwise(pinned: str):
    names = [f"net/ipv6/conf/{which}/disable_ipv6" for which in ("all", "default", "lo")]
    await netns.enable_ipv6(pinned, dict.fromkeys(names, "1"))

    def values() -> list[str]:
        return [Path("/proc/sys", name).read_text().strip() for name in names]

    await netns.enable_ipv6(pinned)
    assert await netns.in_netns(pinned, values) == ["0", "0", "0"]
    await netns.enable_ipv6(pinned, {"net.ipv6.conf.default.disable_ipv6": "1"})
    assert await netns.in_netns(pinned, values) == ["0", "1", "0"]


async def test_bad_settings_are_named(pinned: str):
    with pytest.raises(NetnsError, match=r"net\.ipv4\.no_such_thing"):
        await netns.enable_ipv6(pinned, {"net.ipv4.no_such_thing": "1"})
    with pytest.raises(NetnsError, match=r"net\.ipv4\.ip_forward.*'many'"):
        await netns.enable_ipv6(pinned, {"net.ipv4.ip_forward": "many"})


async def test_only_namespaces_are_entered(tmp_path: Path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "missing"):
        with pytest.raises(NetnsError):
            await netns.in_netns(str(path), lambda: None)


async def test_neither_threads_nor_descriptors_stay(pinned: str):
    await netns.in_netns(pinned, lambda: None)
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        await netns.in_netns(pinned, lambda: None)
    for thread in threading.enumerate():
        if thread.name == "crishim-netns":
            thread.join(5)  # each is in its last lines: it has answered
    assert threading.active_count() <= threads
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize("around", ["private", "shared"])
def test_make_shared_mounts_once_where_it_must(tmp_path: Path, around: str):
    """In a mount namespace of its own, so that the folder can lie on a mount of either kind."""
    script = f"""
from crishim.network import mounts, netns
folder = {str(tmp_path)!r} + "/netns"
counts = []
for _ in range(2):
    try:
        netns.make_shared(folder)
    except Exception as error:
        assert "do not reach" in str(error), error
    assert mounts.is_shared(folder)
    counts.append(len(mounts.own_mounts()))
print(mounts.mount_id(folder) != mounts.mount_id(folder + "/.."), counts[1] - counts[0])
"""
    command = ["unshare", "--mount", f"--propagation={around}", sys.executable, "-c", script]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert run.stdout == f"{around == 'private'} 0\n"


def test_the_folder_of_the_pins_is_shared(pin_dir: str):
    assert mounts.is_shared(pin_dir)
    assert mounts.mounts_reach_host(pin_dir)


PROBE = """
import sys
from crishim.errors import NetnsError
from crishim.network import netns
try:
    netns.make_shared(sys.argv[1])
except NetnsError as error:
    print(error)
else:
    print("reached")
"""


@pytest.mark.parametrize(
    ("propagation", "word"), [("private", "do not reach"), ("slave", "do not reach"), ("unchanged", "reached")]
)
def test_a_mount_namespace_of_its_own_is_noticed(pin_dir: str, propagation: str, word: str):
    command = ["unshare", "--mount", f"--propagation={propagation}", sys.executable, "-c", PROBE, pin_dir]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert word in run.stdout


def test_pins_appear_in_a_receiving_mount_namespace(holder: Holder, pin_dir: str):
    """As a CNI daemon in a container sees them, which mounts the folder HostToContainer."""
    command = [
        "unshare",
        "--mount",
        "--propagation=slave",
        "sh",
        "-c",
        'echo; read x; stat -c %i "$0"',
        f"{pin_dir}/crishim-a",
    ]
    daemon = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert daemon.stdout is not None
    assert daemon.stdout.readline() == "\n"
    process = holder()
    netns.pin_sync(process.pid, f"{pin_dir}/crishim-a")
    out, _ = daemon.communicate("\n", timeout=10)
    assert int(out) == inode(f"/proc/{process.pid}/ns/net")
