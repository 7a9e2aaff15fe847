"""A new user's first command: ``make demo`` in a fresh copy of the sources, which only has make and git beside it.

Simulated is what the guest cannot reach: pip's index is a folder of wheels, apt's mirror a folder of packages.
"""

from __future__ import annotations

from tests.vm.image import WHEELS
from tests.vm.node import SOURCES, Node

_LIMIT = 900.0
_COMMAND = f"cd {SOURCES} && PIP_NO_INDEX=1 PIP_FIND_LINKS={WHEELS} make demo </dev/null 2>&1"


def test_on_the_machines_engine(node: Node) -> None:
    images = node.guest.run("docker images --quiet --no-trunc | sort")
    node.guest.run("systemctl stop crishim")  # which would see the demo's pod, and keep a record of it
    try:
        words = node.guest.run(_COMMAND, limit=_LIMIT)
    finally:
        node.guest.run("systemctl start crishim")
    assert "demo: on the engine at /var/run/docker.sock" in words
    assert "hello from the pod" in words
    assert "left behind: 0 objects" in words
    assert node.guest.run("docker images --quiet --no-trunc | sort") == images


def test_where_no_engine_runs(node: Node) -> None:
    before = node.guest.run("ls /var/tmp; ls /sys/class/net")
    node.guest.run("systemctl stop docker.socket docker crishim")
    try:
        words = node.guest.run(_COMMAND, limit=_LIMIT)
    finally:
        node.guest.run("systemctl start docker.socket docker crishim")
    assert "starting an engine in a test world" in words
    assert "left behind: 0 objects" in words
    assert "runtime front" not in words  # this machine's root lacks nothing
    assert node.guest.run("ls /var/tmp; ls /sys/class/net") == before
