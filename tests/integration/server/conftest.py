"""Servers: one that tests share, and those of a test's own; one at a time, as each adopts all pods of its engine."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cni.testing import ScriptedPlugin
from tests.env.cni import CniDirs, make_bridge
from tests.env.engine import TestEngine
from tests.integration.server.fronted import FRONTED
from tests.integration.server.residue import BRIDGES, Quiet, assert_nothing_left, assert_store_empty, remove_containers
from tests.integration.server.serving import CrishimServer

_numbers = itertools.count(1)
_failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Let fixtures know whether their test has failed."""
    report = yield
    if call.when == "call":
        item.stash[_failed] = call.excinfo is not None
    return report


@dataclass
class Shared:
    """The server that tests share: started when it is wanted, and halted for a test that wants the engine alone."""

    server: CrishimServer
    fronted: TestEngine | None = None
    """The engine whose fronts ask it."""
    quiet: Quiet | None = None
    """Of this life. Not of each test: so a leak of a few descriptors in each shows, too."""

    def running(self) -> Quiet:
        """Start it unless it runs; what it was like then."""
        if self.quiet is None or not self.server.running:
            if self.fronted is not None:
                self.fronted.front_asks(self.server.desk)
            self.server.start()
            self.quiet = Quiet.of(self.server)
        return self.quiet

    def halt(self) -> None:
        """Stop it, with an empty store, if it runs."""
        if self.server.running:
            assert self.server.stop() == 0, self.server.last_words()
            assert_store_empty(self.server)
        self.quiet = None


@pytest.fixture(scope="package")
def shared(engine: TestEngine, busybox_image: str, world_folder: Path) -> Iterator[Shared]:
    """What `server` and `alone` are made of."""
    assert busybox_image
    shared = Shared(
        CrishimServer(engine.url, world_folder / "tmp" / "shared", flags=["--log-level=debug"]),
        engine if FRONTED else None,
    )
    yield shared
    shared.halt()
    if shared.server.folder.exists():
        shared.server.remove_folder()


@pytest.fixture
def alone(shared: Shared) -> None:
    """No other server is on the shared engine while the test runs."""
    shared.halt()


@pytest.fixture
def server(request: pytest.FixtureRequest, shared: Shared, engine: TestEngine) -> Iterator[CrishimServer]:
    """A server with network none on the shared engine, shared by tests that leave it running.

    The test may leave pods: they are removed after it, and then nothing may be left anywhere, nor in the server itself.
    """
    quiet, server = shared.running(), shared.server
    began = server.log.stat().st_size
    yield server
    if request.node.stash.get(_failed, False):
        print(f"----- {server.log}\n{server.log.read_bytes()[began:].decode(errors='replace')[-20_000:]}")
    server.remove_all()
    assert_nothing_left(server, engine.api, quiet)
    shutil.rmtree(server.logs, ignore_errors=True)


@pytest.fixture
def new_server(
    request: pytest.FixtureRequest, alone: None, engine: TestEngine, busybox_image: str, world_folder: Path
) -> Iterator[Callable[..., CrishimServer]]:
    """``new_server(engine_url=, cni=, flags=, fronted=)``: a server, not started yet, removed after the test.

    ``fronted``: the shared engine's fronts ask it. Its log is shown when the test fails.
    """
    assert busybox_image
    servers: list[CrishimServer] = []

    def make(engine_url: str = engine.url, *, fronted: bool = FRONTED, **settings: Any) -> CrishimServer:
        # Not tmp_path: a unix socket's path may have 107 bytes.
        servers.append(CrishimServer(engine_url, world_folder / "tmp" / f"s{next(_numbers)}", **settings))
        if fronted and engine_url == engine.url:
            engine.front_asks(servers[-1].desk)
        return servers[-1]

    yield make
    engine.front_asks(None)
    for server in servers:
        if request.node.stash.get(_failed, False) and server.log.exists():
            print(f"----- {server.log}\n{server.log.read_text(errors='replace')[-20_000:]}")
        server.remove_folder()
    if request.node.stash.get(_failed, False):
        remove_containers(engine.api)  # so that other tests do not fail for it, too


@pytest.fixture
def tally(cni_dirs: CniDirs) -> ScriptedPlugin:
    """The last plugin of `bridged`: it logs each call, and does otherwise what a test tells it."""
    return ScriptedPlugin(cni_dirs.bin, "tally")


@pytest.fixture
def bridged(cni_dirs: CniDirs, tally: ScriptedPlugin) -> Iterator[CniDirs]:
    """CNI folders with one network: bridge, addresses by host-local, host ports by portmap, then `tally`."""
    name = f"{BRIDGES}{next(_numbers)}"
    bridge = {
        "type": "bridge",
        "bridge": name,
        "isGateway": True,
        "ipam": {"type": "host-local", "dataDir": str(cni_dirs.data), "ranges": [[{"subnet": "10.88.0.0/16"}]]},
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": False}
    cni_dirs.write("pods", [bridge, ports, {"type": tally.name}])
    make_bridge(name)
    yield cni_dirs
    if Path("/sys/class/net", name).exists():
        subprocess.run(["ip", "link", "delete", name], check=True)
