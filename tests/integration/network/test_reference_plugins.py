"""The CNI library with the reference plugins, in real network namespaces.

The plugins' "host" is the namespace that the tests run in, which is their own.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cni import CNI, Attachment, ExecInvoker, parse_conflist, parse_result
from cni.errors import PluginError
from crishim.network import netns

pytestmark = pytest.mark.root

BIN = "/usr/lib/cni"
BRIDGE = "crtbr0"
DUAL_STACK = [[{"subnet": "10.213.0.0/24"}], [{"subnet": "fd00:213::/64"}]]


@pytest.fixture
def leases(tmp_path: Path) -> Iterator[Path]:
    """Folder of host-local's leases; with it the bridge of the tests, removed afterwards."""
    if not os.path.exists(f"{BIN}/bridge"):
        pytest.fail(f"the reference plugins are missing in {BIN} (package containernetworking-plugins)")
    yield tmp_path / "leases"
    subprocess.run(["ip", "link", "delete", BRIDGE], check=False, capture_output=True)


@pytest.fixture
def make_network(leases: Path) -> Callable[..., Any]:
    def make(version: str = "1.0.0", ranges: Any = DUAL_STACK) -> Any:
        plugins = [
            {
                "type": "bridge",
                "bridge": BRIDGE,
                "isGateway": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(leases),
                    "ranges": ranges,
                    "routes": [{"dst": "0.0.0.0/0"}, *([{"dst": "::/0"}] if len(ranges) > 1 else [])],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}, "snat": False},
            {"type": "bandwidth", "capabilities": {"bandwidth": True}},
        ]
        return parse_conflist(json.dumps({"cniVersion": version, "name": "refnet", "plugins": plugins}))

    return make


@pytest.fixture
def runtime() -> CNI:
    return CNI(ExecInvoker([BIN]), timeout=30)


def attachment(path: str, **capabilities: Any) -> Attachment:
    return Attachment(
        container_id="pod0", ifname="eth0", netns=path, args={"IgnoreUnknown": "1"}, capability_args=capabilities
    )


def inside(path: str, *command: str) -> str:
    run = subprocess.run(["nsenter", f"--net={path}", *command], check=True, capture_output=True, text=True)
    return run.stdout


def veths() -> list[str]:
    return [
        link["ifname"] for link in json.loads(subprocess.check_output(["ip", "-j", "link", "show", "type", "veth"]))
    ]


def taken(leases: Path) -> list[str]:
    folder = leases / "refnet"
    return sorted(name for name in os.listdir(folder) if name[0].isdigit() or name.startswith("fd"))


def rules() -> str:
    return subprocess.check_output(["iptables-save", "-t", "nat"], text=True)


async def test_a_pod_s_life(pinned: str, runtime: CNI, make_network, leases: Path):
    network = make_network(ranges=[[{"subnet": "10.213.0.0/24"}]])
    assert runtime.missing(network) == ""
    port = attachment(
        pinned,
        portMappings=[{"hostPort": 18080, "containerPort": 80, "protocol": "tcp"}],
        bandwidth={"ingressRate": 8_000_000, "ingressBurst": 8_000_000},
    )
    result = await runtime.add(network, port)
    assert result.addresses("eth0") == ("10.213.0.2",)
    assert [route.dst for route in result.routes] == ["0.0.0.0/0"]
    assert {item.name: item.sandbox for item in result.interfaces}["eth0"] == pinned

    shown = json.loads(inside(pinned, "ip", "-j", "addr", "show", "eth0"))
    assert "10.213.0.2" in {entry["local"] for entry in shown[0]["addr_info"]}
    listener = await netns.in_netns(pinned, lambda: socket.create_server(("10.213.0.2", 80)))
    with listener:
        for target in (("10.213.0.2", 80), ("10.213.0.1", 18080)):  # the pod's own address, the host's port
            (await asyncio.to_thread(socket.create_connection, target, 5)).close()
    assert "18080" in rules()

    kept = parse_result(result.text, network.cni_version)
    for _ in range(2):  # DEL may come again
        await runtime.delete(network, port, kept)
        assert taken(leases) == []
        assert veths() == []
        assert "18080" not in rules()
    assert '"eth0"' not in inside(pinned, "ip", "-j", "link")


async def test_check(pinned: str, runtime: CNI, make_network, leases: Path):
    # In version 1.1.1 portmap's CHECK looks for IPv6 rules that its ADD does not make, and bandwidth's crashes
    # where there is no limit.
    network = make_network()
    pod = attachment(pinned, bandwidth={"egressRate": 8_000_000, "egressBurst": 8_000_000})
    result = await runtime.add(network, pod)
    await runtime.check(network, pod, result)
    inside(pinned, "ip", "addr", "del", "10.213.0.2/24", "dev", "eth0")
    with pytest.raises(PluginError, match=r"plugin bridge failed CHECK"):
        await runtime.check(network, pod, result)
    await runtime.delete(network, pod, result)
    assert taken(leases) == []


@pytest.mark.parametrize("version", ["0.3.1", "0.4.0", "1.0.0"])
async def test_every_version_that_the_plugins_speak(
    version: str, pinned: str, runtime: CNI, make_network, leases: Path
):
    network = make_network(version)
    result = await runtime.add(network, attachment(pinned))
    assert result.raw["cniVersion"] == version
    assert result.addresses("eth0") == ("10.213.0.2", "fd00:213::2")
    await runtime.delete(network, attachment(pinned), result)
    assert taken(leases) == []


async def test_the_namespace_is_gone_before_delete(pinned: str, runtime: CNI, make_network, leases: Path):
    network = make_network()
    result = await runtime.add(network, attachment(pinned))
    assert taken(leases)
    await netns.unpin(pinned)
    await runtime.delete(network, attachment(""), result)
    assert taken(leases) == []


async def test_delete_without_add_and_without_result(pinned: str, runtime: CNI, make_network, leases: Path):
    await runtime.delete(make_network(), attachment(pinned))
    await runtime.add(make_network(), attachment(pinned))
    await runtime.delete(make_network(), attachment(pinned))  # the result was lost
    assert taken(leases) == []
    assert veths() == []


async def test_a_plugin_that_refuses_leaves_what_delete_cleans(pinned: str, runtime: CNI, make_network, leases: Path):
    bad = attachment(pinned, portMappings=[{"hostPort": 18080, "containerPort": 80, "protocol": "icmp"}])
    network = make_network()
    with pytest.raises(PluginError, match=r"plugin portmap failed ADD"):
        await runtime.add(network, bad)
    assert taken(leases)  # the bridge plugin had been run
    await runtime.delete(network, bad)
    assert taken(leases) == []
    assert veths() == []


async def test_versions(runtime: CNI):
    assert await runtime.version("bridge") == ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0")


async def test_a_version_that_the_plugin_does_not_speak(pinned: str, runtime: CNI, make_network):
    with pytest.raises(PluginError) as caught:
        await runtime.add(make_network("1.1.0"), attachment(pinned))
    assert caught.value.code == 1
    assert "incompatible CNI versions" in str(caught.value)


async def test_loopback(pinned: str, runtime: CNI):
    network = parse_conflist('{"cniVersion": "1.0.0", "name": "lo", "type": "loopback"}')
    lo = Attachment(container_id="pod0", ifname="lo", netns=pinned)
    result = await runtime.add(network, lo)
    assert "127.0.0.1" in result.addresses("lo")
    await runtime.delete(network, lo, result)
