"""Namespaces and folders for plugins; each test cleans up what it made on the host."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.env.cni import PLUGINS
from tests.reference_plugins import build

_numbers = itertools.count()


@pytest.fixture
def new_netns() -> Iterator[Callable[[], str]]:
    """``new_netns()``: the path of a fresh network namespace, as an engine leaves one: ``lo`` down, IPv6 off."""
    holders: list[subprocess.Popen[bytes]] = []
    off = "".join(f"echo 1 > /proc/sys/net/ipv6/conf/{which}/disable_ipv6;" for which in ("all", "default"))

    def make() -> str:
        command = ["unshare", "--net", "sh", "-c", f"{off} echo; exec sleep 1000"]
        holder = subprocess.Popen(command, stdout=subprocess.PIPE)
        holders.append(holder)
        assert holder.stdout is not None
        holder.stdout.read(1)
        return f"/proc/{holder.pid}/ns/net"

    yield make
    for holder in holders:
        holder.kill()
        holder.communicate()


@pytest.fixture
def bridge_name() -> Iterator[str]:
    """The name of a bridge that is taken away afterwards."""
    name = f"plugbr{next(_numbers)}"
    yield name
    subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)


@pytest.fixture(params=["debian", build.version()])
def reference(request: pytest.FixtureRequest) -> Path:
    """A folder with reference plugins: the system's, and the newer release (not run where it is not built)."""
    if request.param == "debian":
        return next(folder for folder in PLUGINS if (folder / "bridge").exists())
    return build.folder()
