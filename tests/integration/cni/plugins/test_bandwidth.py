"""What limiting promises beyond the reference: nothing left, CHECK sees what is gone, pyroute2 keeps to itself."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cni import CNI, Attachment, NetworkConfList, parse_conflist
from cni.errors import Code, PluginError
from cni.plugins.bandwidth import plugin as bandwidth
from cni.plugins.bandwidth.plugin import ifb_name
from cni.plugins.bandwidth.shaping import Shaping
from cni.plugins.registry import EmbeddedInvoker
from tests.integration.cni.plugins import observed

pytestmark = pytest.mark.root

LIMITS = {"ingressRate": 8_000_000, "ingressBurst": 800_000, "egressRate": 16_000_000, "egressBurst": 1_600_000}
BEYOND_32_BITS = {name: 48_000_000_000 if name.endswith("Rate") else value for name, value in LIMITS.items()}


def network_of(bridge: str, data: Path, limits: dict[str, int] = LIMITS) -> NetworkConfList:
    ipam = {"type": "host-local", "dataDir": str(data), "ranges": [[{"subnet": "10.83.0.0/24"}]]}
    plugins = [
        {"type": "bridge", "bridge": bridge, "isDefaultGateway": True, "ipam": ipam},
        {"type": "bandwidth", **limits},
    ]
    return parse_conflist(json.dumps({"cniVersion": "1.1.0", "name": "limited", "plugins": plugins}))


def attachment_of(netns: str, container_id: str = "c1") -> Attachment:
    return Attachment(container_id=container_id, ifname="eth0", netns=netns)


def tc(*arguments: str) -> str:
    return subprocess.run(["tc", *arguments], capture_output=True, text=True, check=True).stdout


def open_loops() -> int:
    gc.collect()
    return sum(isinstance(one, asyncio.AbstractEventLoop) and not one.is_closed() for one in gc.get_objects())


async def test_no_descriptor_thread_or_loop_is_left(
    new_netns: Callable[[], str], bridge_name: str, tmp_path: Path
) -> None:
    """pyroute2 has a loop in each socket: it must be none of the caller's, and end with the call."""
    invoker = EmbeddedInvoker()
    cni, network, paths = CNI(invoker), network_of(bridge_name, tmp_path), [new_netns() for _ in range(4)]

    async def in_turn(number: int) -> None:
        attachment = attachment_of(paths[number], f"c{number}")
        result = await cni.add(network, attachment)
        await cni.check(network, attachment, result)
        with pytest.raises(PluginError):  # what fails must not leak, either
            await cni.check(network_of(bridge_name, tmp_path, BEYOND_32_BITS), attachment, result)
        await cni.delete(network, attachment, result)
        await invoker.settle(attachment.container_id)

    await in_turn(0)
    before = len(os.listdir("/proc/self/fd")), open_loops()
    await asyncio.gather(*(in_turn(number) for number in range(4)))
    assert (len(os.listdir("/proc/self/fd")), open_loops()) == before
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("cni-")]
    assert observed.buckets() == []


async def test_rates_beyond_32_bits(new_netns: Callable[[], str], bridge_name: str, tmp_path: Path) -> None:
    """In bytes per second; CHECK reads all of the number."""
    cni, attachment = CNI(EmbeddedInvoker()), attachment_of(new_netns())
    network = network_of(bridge_name, tmp_path, BEYOND_32_BITS)
    result = await cni.add(network, attachment)
    assert [rate for _, rate, _ in observed.buckets()] == [6_000_000_000] * 2
    await cni.check(network, attachment, result)
    more = BEYOND_32_BITS | {"ingressRate": 48_000_000_008}
    with pytest.raises(PluginError, match="is not limited to 48000000008 bits"):
        await cni.check(network_of(bridge_name, tmp_path, more), attachment, result)
    await cni.delete(network, attachment, result)


async def test_the_slowest_rate_with_the_largest_burst(
    new_netns: Callable[[], str], bridge_name: str, tmp_path: Path
) -> None:
    cni, attachment = CNI(EmbeddedInvoker()), attachment_of(new_netns())
    network = network_of(bridge_name, tmp_path, {"ingressRate": 8, "ingressBurst": (1 << 32) * 8 - 8})
    result = await cni.add(network, attachment)
    await cni.check(network, attachment, result)
    assert [rate for _, rate, _ in observed.buckets()] == [1]
    await cni.delete(network, attachment, result)


async def test_check_says_what_is_gone(new_netns: Callable[[], str], bridge_name: str, tmp_path: Path) -> None:
    cni, attachment, network = CNI(EmbeddedInvoker()), attachment_of(new_netns()), network_of(bridge_name, tmp_path)
    result = await cni.add(network, attachment)
    port, ifb = result.interfaces[1].name, ifb_name("limited", "c1")
    slower = ["root", "handle", "1:", "tbf", "rate", "1mbit", "burst", "100000", "limit", "100000"]
    for undo, words in (
        (["tc", "qdisc", "del", "dev", port, "ingress"], f"what {port} receives is not redirected to {ifb}"),
        (["tc", "qdisc", "change", "dev", ifb, *slower], f"{ifb} is not limited to 16000000"),
        (["ip", "link", "set", ifb, "down"], "is gone or down"),
        (["ip", "link", "del", ifb], "is gone or down"),
        (["tc", "qdisc", "del", "dev", port, "root"], f"{port} is not limited to 8000000"),
    ):
        subprocess.run(undo, check=True)
        with pytest.raises(PluginError, match=words) as caught:
            await cni.check(network, attachment, result)
        assert caught.value.code == Code.IO_FAILURE
    await cni.delete(network, attachment, result)


NO_LINK = 99999


@pytest.mark.parametrize(
    ("step", "refused"),
    [
        ("limit", lambda real, shaping, index, *rest: real(shaping, NO_LINK, *rest)),
        ("make_ifb", lambda real, shaping, name, *rest: real(shaping, name, 1 << 31, *rest[1:])),
        ("redirect", lambda real, shaping, index, to: real(shaping, index, NO_LINK)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_the_kernel_refuses_a_step_and_nothing_is_left(
    step: str,
    refused: Callable[..., Any],
    new_netns: Callable[[], str],
    bridge_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the kernel told is told, with the plugin's name; what the steps before made is taken away without DEL."""
    real = getattr(Shaping, step)
    monkeypatch.setattr(Shaping, step, lambda shaping, *rest: refused(real, shaping, *rest))
    await fails_and_leaves_nothing("the network: (No such device|Invalid argument)", new_netns(), bridge_name, tmp_path)


async def test_the_last_step_fails_and_nothing_is_left(
    new_netns: Callable[[], str], bridge_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(5, "made to fail")

    monkeypatch.setattr(bandwidth, "Interface", fail)
    await fails_and_leaves_nothing("made to fail", new_netns(), bridge_name, tmp_path)


async def fails_and_leaves_nothing(words: str, path: str, bridge: str, data: Path) -> None:
    invoker = EmbeddedInvoker()
    cni, network = CNI(invoker), network_of(bridge, data)
    with pytest.raises(PluginError, match=words) as caught:
        await cni.add(network, attachment_of(path))
    assert (caught.value.plugin, caught.value.code) == ("bandwidth", Code.IO_FAILURE)
    assert observed.buckets() == []
    assert "ingress" not in tc("qdisc", "show")
    assert not [link for link in observed.links() if link.startswith("bwp")]
    await cni.delete(network, attachment_of(path))
    await invoker.settle("c1")


async def test_what_an_add_left_that_nobody_saw_end_is_replaced(
    new_netns: Callable[[], str], bridge_name: str, tmp_path: Path
) -> None:
    cni, attachment, network = CNI(EmbeddedInvoker()), attachment_of(new_netns()), network_of(bridge_name, tmp_path)
    subprocess.run(["ip", "link", "add", ifb_name("limited", "c1"), "mtu", "1000", "type", "ifb"], check=True)
    result = await cni.add(network, attachment)
    await cni.check(network, attachment, result)
    await cni.delete(network, attachment, result)


async def test_gc_takes_what_belongs_to_no_valid_attachment(
    new_netns: Callable[[], str], bridge_name: str, tmp_path: Path
) -> None:
    """The ifb of a container that is not in the list; not that of another network, nor one that nobody marked."""
    cni, network = CNI(EmbeddedInvoker()), network_of(bridge_name, tmp_path)
    kept, lost = attachment_of(new_netns(), "c1"), attachment_of(new_netns(), "c2")
    result, _ = await cni.add(network, kept), await cni.add(network, lost)
    for name, alias in (("bwpother", "cni other c9 eth0"), ("bwpnobody", "")):
        subprocess.run(["ip", "link", "add", name, "alias", alias, "type", "ifb"], check=True)
    try:
        await cni.gc(network, [("c1", "eth0")])
        left = {link for link in observed.links() if link.startswith("bwp")}
        assert left == {ifb_name("limited", "c1"), "bwpother", "bwpnobody"}
        await cni.check(network, kept, result)
        await cni.gc(network, [])
        assert {link for link in observed.links() if link.startswith("bwp")} == {"bwpother", "bwpnobody"}
        for attachment in (kept, lost):  # what is gone is no error
            await cni.delete(network, attachment)
    finally:
        for name in ("bwpother", "bwpnobody"):
            subprocess.run(["ip", "link", "delete", name], check=True)
