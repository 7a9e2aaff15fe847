"""Connections into a namespace: who is reached, what is told when nobody is, and nothing kept."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from crishim.errors import NetnsError, PortForwardFailed
from crishim.network import netns
from crishim.network.dial import dial_loopback

pytestmark = pytest.mark.root


@pytest.fixture
def up(pinned: str) -> str:
    """A pinned namespace whose loopback is up."""
    subprocess.run(["nsenter", f"--net={pinned}", "ip", "link", "set", "lo", "up"], check=True)
    return pinned


async def listen(path: str, family: socket.AddressFamily, address: str) -> socket.socket:
    """A listener in a namespace."""
    return await netns.in_netns(path, lambda: socket.create_server((address, 0), family=family, backlog=200))


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
async def test_listener_is_reached(up: str, family: socket.AddressFamily, address: str) -> None:
    with await listen(up, family, address) as listener:
        port = listener.getsockname()[1]
        for place in (up, up):
            with await dial_loopback(place, port) as dialled:
                assert dialled.getpeername()[:2] == (address, port)
                assert not dialled.getblocking()
                assert not os.get_inheritable(dialled.fileno())
                accepted, _ = listener.accept()
                accepted.close()


async def test_ipv4_comes_first(up: str) -> None:
    with await listen(up, socket.AF_INET, "127.0.0.1") as listener:
        port = listener.getsockname()[1]
        other = await netns.in_netns(up, lambda: socket.create_server(("::1", port), family=socket.AF_INET6))
        with other, await dial_loopback(up, port) as dialled:
            assert dialled.family is socket.AF_INET


async def test_refusal_tells_both_reasons(up: str) -> None:
    with pytest.raises(PortForwardFailed) as caught:
        await dial_loopback(up, 9)
    assert "port 9 " in caught.value.message
    assert "127.0.0.1: Connection refused" in caught.value.message
    assert "::1: " in caught.value.message


async def test_namespace_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NetnsError):
        await dial_loopback(str(tmp_path / "nothing"), 80)


async def test_many_at_once_and_some_given_up(up: str) -> None:
    """Neither descriptors nor threads stay."""
    with await listen(up, socket.AF_INET, "127.0.0.1") as listener:
        port = listener.getsockname()[1]
        before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
        tasks = [asyncio.create_task(dial_loopback(up, port if number % 3 else 9)) for number in range(90)]
        for number, task in enumerate(tasks):
            await asyncio.sleep(0)
            if number % 4 == 0:
                task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled() and task.exception() is None:
                task.result().close()
        assert len(os.listdir("/proc/self/fd")) == before
        for thread in threading.enumerate():
            if thread.name == "crishim-netns":
                thread.join(10)
        assert threading.active_count() <= threads
        assert listener.fileno() >= 0
