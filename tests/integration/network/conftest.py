"""Real network namespaces, each held by a process of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from crishim.network import mounts, netns
from crishim.network.embedded.backend import EmbeddedNetwork
from tests.integration.network.node import Node


@pytest.fixture
def holder() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Start processes that sleep in a network namespace of their own; returns when each has entered it."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        # The process says that it is there: unshare runs the shell only after it has moved.
        process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec sleep 1000"], stdout=subprocess.PIPE, start_new_session=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.read(1) == b"\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def pin_dir(tmp_path: Path) -> Iterator[str]:
    """A folder prepared for pins, all taken off afterwards."""
    directory = str(tmp_path / "netns")
    netns.make_shared(directory)
    yield directory
    for path in netns.list_pins(directory, ""):
        netns.unpin_sync(path)
    if mounts.mount_id(directory) != mounts.mount_id(str(tmp_path)):
        mounts.detach(directory)
    assert os.listdir(directory) == []


@pytest.fixture
async def pinned(holder: Callable[[], subprocess.Popen[bytes]], pin_dir: str) -> str:
    """Path of a pinned namespace whose process is dead already."""
    process = holder()
    path = netns.pin_path(pin_dir, "pod0")
    await netns.pin(process.pid, path)
    process.kill()
    process.wait()
    return path


@pytest.fixture
def node(tmp_path: Path, holder: Callable[[], subprocess.Popen[bytes]], pin_dir: str) -> Iterator[Node]:
    pins = []
    for number in range(3):
        pins.append(netns.pin_path(pin_dir, f"pod{number}"))
        netns.pin_sync(holder().pid, pins[-1])
    node = Node(tmp_path, pins)
    yield node
    for server in node.servers:
        server.kill()
        server.wait()
        assert server.stdout is not None
        server.stdout.close()
    for flavour in ("nft", "legacy"):
        for command in ("-P FORWARD ACCEPT", "-F FORWARD", "-F DOCKER-USER", "-X DOCKER-USER"):
            subprocess.run([f"iptables-{flavour}", *command.split()], capture_output=True, check=False)
    subprocess.run(["ip", "link", "delete", "crishim0"], capture_output=True, check=False)


@pytest.fixture
async def network(node: Node) -> AsyncIterator[EmbeddedNetwork]:
    network = node.network()
    await network.start()
    yield network
    await network.close()
