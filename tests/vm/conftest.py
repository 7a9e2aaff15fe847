"""One guest for a whole session: out of the snapshot, with crishim installed as a service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm import SUITE, snapshot
from tests.vm.guest import Guest
from tests.vm.image import GuestImage
from tests.vm.node import Node, install, load_image
from tests.vm.snapshot import Snapshot

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The emulated machine takes minutes: its tests run when they are named (``pytest tests/vm``, ``make vm``)."""
    named = [Path(config.invocation_params.dir, str(word).partition("::")[0]) for word in config.invocation_params.args]
    if not any(path.exists() and path.resolve().is_relative_to(HERE) for path in named):
        return True
    return None


def pytest_report_header() -> str:
    """Which guest it is."""
    return f"virtual machine: Debian {SUITE} (CRISHIM_VM_SUITE)"


@pytest.fixture(scope="session")
def image() -> GuestImage:
    """The guest's image."""
    made = GuestImage(SUITE)
    if not made.ready:
        pytest.fail(f"Debian {SUITE} is not built: run `make vm SUITE={SUITE}`", pytrace=False)
    return made


@pytest.fixture(scope="session")
def guest(image: GuestImage, world_folder: Path) -> Iterator[Guest]:
    """The running guest."""
    kept = Snapshot(image)
    parent = world_folder / "tmp"
    snapshot.make_ready(kept, parent)
    with snapshot.started(kept, parent) as made:
        yield made


@pytest.fixture(scope="session")
def shared_node(guest: Guest, image: GuestImage, world_folder: Path) -> Iterator[Node]:
    """The node that all tests share."""
    place = world_folder / "tmp" / "node"
    place.mkdir()
    install(guest, image.python, place)
    node = Node(guest, place)
    node.wait_ready()
    load_image(node)
    yield node
    node.client.close()


@pytest.fixture
def node(shared_node: Node) -> Iterator[Node]:
    """The node, which is as it was before when the test is over: ready, no pod, pin or address more than before."""
    before = _things(shared_node)
    yield shared_node
    shared_node.reconnect()
    shared_node.wait_ready()
    if left := _things(shared_node) - before:
        pytest.fail(f"left behind by this test: {', '.join(sorted(left))}", pytrace=False)


def _things(node: Node) -> set[str]:
    """What a pod consists of: as crishim lists it, as the engine has it, and what else is made for it."""
    found = {f"sandbox {item.id[:13]}" for item in node.call("ListPodSandbox").items}
    found |= {f"container {item.id[:13]}" for item in node.call("ListContainers").containers}
    found |= {f"engine's {row['Names']}" for row in node.engine.call("GET", "/containers/json", {"all": "1"})}
    names = node.guest.run("cd /run/netns && ls; cd /var/lib/cni/networks/guest && ls -d 198.*; true").split()
    return found | {f"namespace or address {name}" for name in names}
