"""What holding a pod's namespaces without a process means, for the kernel and for the book kept in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from crishim.errors import NetnsError
from crishim.network import held, netns
from crishim.network.held import Kind, Wanted
from crishim.network.namespaces import KernelNamespaces, NetworkNamespaces, SimulatedNamespaces

ALL: frozenset[Kind] = frozenset(("network", "ipc", "uts"))
WANTED = Wanted(kinds=ALL, hostname="a-name", sysctls={"net.ipv4.ip_forward": "1"}, files={"hosts": "text\n"})


@pytest.fixture(params=["simulated", pytest.param("kernel", marks=pytest.mark.root)])
def namespaces(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NetworkNamespaces]:
    """Both of them; nothing is left of what a test makes."""
    if request.param == "simulated":
        yield SimulatedNamespaces()
        return
    made = KernelNamespaces(str(tmp_path), str(tmp_path / "pods"))
    yield made
    for name in held.list_folders(str(tmp_path / "pods")):
        held.unmake_sync(made.path(name), made.folder(name))
    for pin in netns.list_pins(str(tmp_path)):
        netns.unpin_sync(pin)


async def test_made_held_and_let_go(namespaces: NetworkNamespaces) -> None:
    assert not await namespaces.holds("a", ALL)
    await namespaces.make("a", WANTED)
    await namespaces.make("b", Wanted(kinds=frozenset()))
    assert (await namespaces.holds("a", ALL), await namespaces.holds("b", frozenset())) == (True, True)
    assert not await namespaces.holds("b", frozenset(("ipc",)))
    assert (namespaces.pinned("a"), sorted(await namespaces.pins())) == (True, ["a", "b"])
    assert await namespaces.held_addresses("a") == ()
    assert not await namespaces.inhabited("a")
    for name in ("a", "b", "a", "b", "never"):
        await namespaces.unpin(name)
        assert not await namespaces.holds(name, frozenset())
    assert list(await namespaces.pins()) == []


async def test_what_is_held_is_not_made_again(namespaces: NetworkNamespaces) -> None:
    await namespaces.make("a", WANTED)
    with pytest.raises(NetnsError):
        await namespaces.make("a", WANTED)
    assert await namespaces.holds("a", ALL)
    await namespaces.unpin("a")
    await namespaces.make("a", WANTED)
    await namespaces.unpin("a")


async def test_places_are_told_before_anything_is_made(namespaces: NetworkNamespaces) -> None:
    assert namespaces.path("a") != namespaces.path("b")
    assert namespaces.folder("a") != namespaces.folder("b")
    assert list(await namespaces.pins()) == []
    assert await namespaces.held_addresses("a") == ()


async def test_who_has_ended_is_nowhere(namespaces: NetworkNamespaces) -> None:
    await namespaces.make("a", WANTED)
    none = int(Path("/proc/sys/kernel/pid_max").read_text()) + 1
    assert namespaces.strangers("a", ALL, none) == ()
    assert not os.path.exists(f"/proc/{none}")
    await namespaces.unpin("a")
