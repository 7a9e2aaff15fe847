"""Pins, and what mountinfo says, without privileges."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from crishim.errors import NetnsError
from crishim.network import netns
from crishim.network.mounts import MountEntry, mount_id, parse_mountinfo, reaches

MOUNTINFO = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 27 0:30 / /run rw shared:5 - tmpfs tmpfs rw
41 40 0:30 /netns /run/netns rw shared:5 master:3 propagate_from:2 - tmpfs tmpfs rw
42 27 0:31 /a\\040b /mnt/a\\040b rw unbindable - tmpfs tmpfs rw
"""


def test_mountinfo_is_read():
    assert parse_mountinfo(MOUNTINFO) == [
        MountEntry(27, "/", 0, 0),
        MountEntry(40, "/", 5, 0),
        MountEntry(41, "/netns", 5, 3),
        MountEntry(42, "/a\\040b", 0, 0),
    ]


OURS = MountEntry(141, "/netns", 5, 0)


@pytest.mark.parametrize(
    ("ours", "host", "answer"),
    [
        (OURS, [MountEntry(141, "/netns", 0, 0)], True),  # one and the same namespace, not even shared
        (OURS, [MountEntry(40, "/", 5, 0)], True),  # a peer that shows more
        (OURS, [MountEntry(41, "/netns", 0, 5)], True),  # a receiver
        (OURS, [MountEntry(41, "/net", 5, 0)], False),  # a peer that shows another folder
        (OURS, [MountEntry(41, "/netns", 6, 0)], False),
        (MountEntry(141, "/netns", 0, 5), [MountEntry(41, "/netns", 5, 0)], False),  # we only receive
        (MountEntry(141, "/netns", 0, 0), [MountEntry(41, "/netns", 0, 0)], False),  # group 0 is no group
    ],
)
def test_mounts_travel_to_peers_and_receivers_only(ours, host, answer):
    assert reaches([ours], host, 141) is answer


def test_mount_id_is_that_of_mountinfo(tmp_path: Path):
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        assert mount_id(str(tmp_path)) in {entry.mount_id for entry in parse_mountinfo(file.read())}


def test_pin_path():
    assert netns.pin_path("/run/netns", "ab12") == "/run/netns/crishim-ab12"
    for bad in ("", "../x", "a/b", "a\0b"):
        with pytest.raises(NetnsError):
            netns.pin_path("/run/netns", bad)


def test_own_namespace_and_missing_process_are_not_pinned(tmp_path: Path):
    with pytest.raises(NetnsError, match="own network namespace"):
        netns.pin_sync(os.getpid(), str(tmp_path / "pin"))
    with pytest.raises(NetnsError, match="process 4194305"):  # above the kernel's largest pid
        netns.pin_sync(4194305, str(tmp_path / "pin"))
    assert os.listdir(tmp_path) == []


def test_what_is_no_pin_is_told_apart(tmp_path: Path):
    stale = tmp_path / "crishim-stale"
    stale.touch()
    assert not netns.is_pinned(str(stale))
    assert not netns.is_pinned(str(tmp_path / "missing"))
    assert netns.is_pinned("/proc/self/ns/net")
    assert not netns.is_pinned("/proc/self/ns/mnt")


def test_list_pins(tmp_path: Path):
    for name in ("crishim-b", "crishim-a", "cni-1"):
        (tmp_path / name).touch()
    assert netns.list_pins(str(tmp_path)) == (f"{tmp_path}/crishim-a", f"{tmp_path}/crishim-b")
    assert netns.list_pins(str(tmp_path), "cni-") == (f"{tmp_path}/cni-1",)
    assert netns.list_pins(str(tmp_path / "missing")) == ()
    with pytest.raises(NetnsError):
        netns.list_pins(str(tmp_path / "cni-1"))


@pytest.mark.parametrize(
    ("key", "file"),
    [
        ("net.ipv4.ip_forward", "net/ipv4/ip_forward"),
        ("net/ipv4/conf/eth0.1/forwarding", "net/ipv4/conf/eth0.1/forwarding"),
        ("net.ipv4.conf.eth0/1.forwarding", "net/ipv4/conf/eth0.1/forwarding"),
    ],
)
def test_setting_names(key, file):
    assert netns._sysctl_file(key) == file


@pytest.mark.parametrize(
    "key", ["", "net", "net.ipv4", "kernel.shm_rmid_forced", "net/ipv4/../../kernel/x", "net..x", "net.a.b\0"]
)
def test_settings_of_elsewhere_are_refused(key):
    with pytest.raises(NetnsError, match="not a setting"):
        netns._sysctl_file(key)


async def test_cancellation_is_delivered_when_the_thread_has_ended():
    entered, go = threading.Event(), threading.Event()
    ended = []

    def work() -> None:
        entered.set()
        go.wait(10)
        ended.append(True)

    task = asyncio.create_task(netns.in_thread(work, "test"))
    await asyncio.to_thread(entered.wait, 10)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=0)
    assert not done
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_answers_and_errors_of_the_thread_pass_through():
    assert await netns.in_thread(lambda: 7, "test") == 7

    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await netns.in_thread(fail, "test")
