"""The embedded network in real namespaces: flushed rules, attaches cut off, earlier boots."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from crishim.errors import HostPortTaken, Kind, NetworkFailed
from crishim.model import PortMapping, Protocol
from crishim.network import netns
from crishim.network.api import Attached, NetworkStatus
from crishim.network.embedded.backend import EmbeddedNetwork
from tests.integration.network.node import Node, attach

pytestmark = pytest.mark.root


async def test_flushed_rules_come_back(node: Node, network: EmbeddedNetwork) -> None:
    """At the next attach, those of the other pods, too; and by a look now and then."""
    first = await attach(network, node.pod(0, host_port=18200))
    node.serve(0)
    assert node.ask(None, "127.0.0.1", 18200) == "10.87.0.1"
    shown = subprocess.run(["nft", "list", "ruleset"], check=True, capture_output=True).stdout
    subprocess.run(["nft", "-c", "-f", "-"], input=shown, check=True)  # as who saves all rules will load them
    subprocess.run(["nft", "flush", "ruleset"], check=True)
    with pytest.raises(NetworkFailed):
        await network.check(node.pod(0, host_port=18200), first)
    await attach(network, node.pod(1))
    await network.check(node.pod(0, host_port=18200), first)
    assert node.ask(None, "127.0.0.1", 18200) == "10.87.0.1"
    assert node.ask(0, "10.87.0.1", 18200) == "10.87.0.1", "the pod itself"
    subprocess.run(["nft", "flush", "table", "inet", "crishim"], check=True)
    await network._rules.mend()
    assert node.ask(1, "10.87.0.1", 18200) == "10.87.0.1"
    for number in (0, 1):
        await network.detach(node.pod(number), first if number == 0 else None)


@pytest.mark.parametrize("by", ["the same process", "the next one"])
async def test_no_address_is_given_twice_when_the_leases_are_gone(node: Node, by: str) -> None:
    network = node.network("10.87.0.0/16,fd00:87::/64")
    pods = [node.pod(0), node.pod(1)]
    records = [await attach(network, pod) for pod in pods]
    shutil.rmtree(node.run)
    if by == "the next one":
        network = node.network("10.87.0.0/16,fd00:87::/64")
        await network.gc({pod.sandbox_id: record for pod, record in zip(pods, records, strict=True)})
    pods.append(node.pod(2))
    records.append(await attach(network, pods[2]))
    every = [address for record in records for address in record.ips]
    assert len(set(every)) == 6
    for pod, record in zip(pods, records, strict=True):
        await network.check(pod, record)
        await network.detach(pod, record)
    assert [name for name in node.left() if name[0].isdigit()] == []


async def test_addresses_of_an_earlier_boot_are_free(node: Node) -> None:
    network = node.network()
    record = await attach(network, node.pod(0))
    shutil.rmtree(node.run)
    later = node.network()
    gone = replace(record, result=record.result.replace(node.pins[0], f"{node.pins[0]}-gone"))
    await later.gc({"pod0": gone})
    assert (await attach(later, node.pod(1))).ips == record.ips
    await network.detach(node.pod(0), record)
    await later.detach(node.pod(1), None)
    assert node.left() == []


DELETED, DOWN, FLUSHED = "link delete crishim0", "link set crishim0 down", "address flush dev crishim0"


@pytest.mark.parametrize(
    ("what", "by_attach"),
    [(DELETED, False), (DELETED, True), (DOWN, False), (FLUSHED, False)],  # each attach makes sure of the latter two
)
async def test_pods_are_connected_again_when_their_bridge_was_taken_away(
    node: Node, what: str, by_attach: bool
) -> None:
    """Status says that it is gone; a look, or the next pod, brings it back, with its address, ports and host ports."""
    network = node.network("10.87.0.0/16,fd00:87::/64")
    await network.start()
    pods = [node.pod(0, host_port=18200), node.pod(1)]
    records = [await attach(network, pod) for pod in pods]
    mac = Path("/sys/class/net/crishim0/address").read_text()
    node.serve(0)
    assert network.status() == NetworkStatus(True)
    subprocess.run(["ip", *what.split()], check=True)
    assert node.ask(None, "10.87.0.2", 80, timeout=0.5) == ""
    with pytest.raises(NetworkFailed, match="the bridge crishim0"):
        await network.check(pods[0], records[0])
    if what == DELETED:
        status = network.status()
        assert (status.ready, status.reason) == (True, "BridgeGone")
        assert "crishim0 was deleted under 2 pods" in status.message
    if not by_attach:
        await network._rules.mend()
    else:
        pods.append(node.pod(2))
        records.append(await attach(network, pods[2]))
    assert network.status() == NetworkStatus(True)
    for pod, record in zip(pods, records, strict=True):
        await network.check(pod, record)
    assert Path("/sys/class/net/crishim0/address").read_text() == mac, "pods know their gateway by it"
    assert node.ask(1, "10.87.0.2", 80) == "10.87.0.3"
    assert node.ask(None, "10.87.0.2", 80) == "10.87.0.1"
    assert node.ask(None, "127.0.0.1", 18200) == "10.87.0.1"
    assert node.ask(0, "10.87.0.1", 18200) == "10.87.0.1", "the pod itself"
    for pod, record in zip(pods, records, strict=True):
        await network.detach(pod, record)
        await network.settle(pod.sandbox_id)
    await network.close()
    assert node.left() == []


ECHO = """
import socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", 80))
print("up", flush=True)
while True:
    said, address = server.recvfrom(99)
    server.sendto(sys.argv[1].encode(), address)
"""


async def test_udp_senders_from_before_reach_the_new_pod(node: Node, network: EmbeddedNetwork) -> None:
    """The kernel decides once per connection, and a sender that goes on has the same one: it is forgotten."""

    def heard() -> str:
        for _ in range(20):
            with suppress(OSError):  # nobody is there: the kernel says so, or nothing comes
                sender.send(b"?")
                return sender.recv(99).decode()
        return ""

    other = await attach(network, node.pod(2))  # with its rules connections are tracked
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("0.0.0.0", 18999))
        sender.connect(("10.87.0.1", 18200))
        sender.settimeout(0.05)
        assert heard() == ""
        sender.settimeout(2)
        for number in (0, 1):
            pod = replace(
                node.pod(number),
                port_mappings=(PortMapping(protocol=Protocol.UDP, container_port=80, host_port=18200),),
            )
            attached = await attach(network, pod)
            command = ["nsenter", f"--net={node.pins[number]}", sys.executable, "-c", ECHO, f"pod {number}"]
            server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - returns at once
            node.servers.append(server)
            assert server.stdout is not None
            assert server.stdout.readline() == "up\n"
            assert heard() == f"pod {number}"
            await network.detach(pod, attached)
    await network.detach(node.pod(2), other)


async def test_pods_reach_no_service_on_the_host_s_loopback(node: Node, network: EmbeddedNetwork) -> None:
    """Host ports on 127.0.0.1 need `route_localnet`, with which the kernel would let neighbours in."""
    attached = [await attach(network, node.pod(0, host_port=18200)), await attach(network, node.pod(1))]
    setting = Path("/proc/sys/net/ipv4/conf/crishim0/route_localnet")
    assert setting.read_text() == "1\n"
    into = ["nsenter", f"--net={node.pins[1]}"]
    for command in (
        "sysctl -q -w net.ipv4.conf.all.route_localnet=1",
        "ip route delete local 127.0.0.0/8 dev lo table local",
        "ip route delete local 127.0.0.1 dev lo table local",
        "ip route add 127.0.0.1 via 10.87.0.1",
    ):
        subprocess.run([*into, *command.split()], check=False, capture_output=True)
    route = subprocess.run([*into, "ip", "route", "get", "127.0.0.1"], capture_output=True, text=True, check=True)
    assert "dev eth0" in route.stdout
    with socket.create_server(("127.0.0.1", 18998)):
        assert node.ask(1, "127.0.0.1", 18998, timeout=0.5) == ""
    dropped = subprocess.run(["nft", "list", "chain", "inet", "crishim", "guard"], capture_output=True, text=True)
    assert "ip daddr 127.0.0.0/8 drop" in dropped.stdout
    for number, record in enumerate(attached):
        await network.detach(node.pod(number), record)
    assert setting.read_text() == "0\n", "switched off with the guard"


async def test_a_port_that_is_taken(node: Node, network: EmbeddedNetwork) -> None:
    first = await attach(network, node.pod(0, host_port=18200))
    planned = network.plan(node.pod(1, host_port=18200))
    with pytest.raises(
        HostPortTaken, match=r"^pod shop/web-1: host port 18200/tcp is taken by pod shop/web-0$"
    ) as caught:
        await network.attach(node.pod(1), planned)
    assert caught.value.kind is Kind.FAILED_PRECONDITION
    await network.detach(node.pod(1), planned)
    await network.check(node.pod(0), first)
    await network.detach(node.pod(0), first)
    await network.settle("pod0")
    assert node.left() == []


async def test_attaches_cut_off(node: Node, scaled: Callable[[int], int]) -> None:
    """Cancelled at random moments; each is followed by its detach, as the kubelet asks for it."""
    network = node.network()
    await network.start()
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(scaled(160)):
        pods = [replace(node.pod(number, host_port=18200 + number)) for number in range(3)]
        planned = [network.plan(pod) for pod in pods]
        tasks = [asyncio.create_task(network.attach(pod, plan)) for pod, plan in zip(pods, planned, strict=True)]
        for task in tasks:
            await asyncio.sleep(chance.uniform(0, 0.008))
            task.cancel()
        await asyncio.wait(tasks)
        await asyncio.gather(*(network.detach(pod, plan) for pod, plan in zip(pods, planned, strict=True)))
        for pod in pods:
            await network.settle(pod.sandbox_id)
        assert node.left() == []
    await network.close()


KILLED = """
import asyncio, json, sys
from crishim.model import PortMapping, Protocol
from crishim.network.api import PodAttachment
from crishim.network.select import make_network
given = json.loads(sys.argv[1])
async def main():
    network = make_network("embedded", conf_dir="", bin_dirs=(), run_dir=given["run"], pod_cidr="10.87.0.0/16")
    await network.start()
    ports = (PortMapping(container_port=80, host_port=18200),)
    who = {"sandbox_id": "pod0", "netns_path": given["pin"], "name": "w", "namespace": "s", "uid": "u"}
    pod = PodAttachment(**who, port_mappings=ports)
    planned = network.plan(pod)
    print(json.dumps(vars(planned)), flush=True)
    while True:
        attached = await network.attach(pod, planned)
        await network.detach(pod, attached)
asyncio.run(main())
"""


def attach_and_die(node: Node, after: float) -> Attached:
    """Attach and detach pod 0 in a process that is killed so many seconds after its plan; that plan."""
    given = json.dumps({"run": str(node.run), "pin": node.pins[0]})
    with subprocess.Popen([sys.executable, "-c", KILLED, given], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        planned = Attached(**json.loads(process.stdout.readline()) | {"ips": ()})
        time.sleep(after)  # the moment is what is random
        process.send_signal(signal.SIGKILL)
    return planned


async def test_processes_killed(node: Node, scaled: Callable[[int], int]) -> None:
    """kill -9 at random moments of attach and detach; what had been planned is detached by the next process."""
    for _ in range(scaled(40)):
        planned = attach_and_die(node, random.uniform(0, 0.06))
        network = node.network()
        await network.start()
        await network.detach(node.pod(0), planned)
        await network.settle("pod0")
        await network.close()
        assert node.left() == []


async def test_what_an_earlier_life_left_is_released(node: Node) -> None:
    """The record is lost, the pod and its namespace are gone: GC at start takes addresses and rules back."""
    network = node.network()
    await network.start()
    kept, lost = node.pod(0, host_port=18200), node.pod(1, host_port=18201)
    attached, _ = await attach(network, kept), await attach(network, lost)
    await network.close()
    await netns.unpin(lost.netns_path)
    later = node.network()
    await later.start()
    await later.gc({kept.sandbox_id: attached})
    await later.check(kept, attached)
    assert later.status() == NetworkStatus(True)
    left = node.left()
    assert attached.ips[0] in left
    assert not [name for name in left if "pod1" in name or name == "10.87.0.3"], left
    await later.gc({})
    assert [name for name in node.left() if not name.startswith("veth")] == []
    await later.detach(kept, attached)
    await later.close()


async def test_after_a_reboot_nothing_is_made_for_dead_pods(node: Node) -> None:
    """Their records are there, their pairs and the bridge are not: none is made, and nothing is said to be gone."""
    network = node.network()
    await network.start()
    attached = await attach(network, node.pod(0))
    await network.close()
    for link in ("crishim0", *(name for name in node.left() if name.startswith("veth"))):
        subprocess.run(["ip", "link", "delete", link], check=True)
    later = node.network()
    await later.start()
    await later.gc({"pod0": attached})
    await later._rules.mend()
    assert later.status() == NetworkStatus(True)
    assert not Path("/sys/class/net/crishim0").exists()
    await later.detach(node.pod(0), attached)
    await later.settle("pod0")
    await later.close()
    assert node.left() == []


async def test_another_range(node: Node) -> None:
    """UpdateRuntimeConfig goes before the configuration, also in a later process; the bridge follows if it can."""
    network = node.network()
    await network.start()
    attached = await attach(network, node.pod(0))
    await network.detach(node.pod(0), attached)
    await network.settle("pod0")
    network.set_pod_cidr("10.89.1.0/24,fd00:89::/64")
    moved = await attach(network, node.pod(0))
    assert moved.ips == ("10.89.1.2", "fd00:89::2")
    await network.close()
    later = node.network()
    await later.start()
    await later.gc({"pod0": moved})
    second = await attach(later, node.pod(1))
    assert second.ips[0] == "10.89.1.3"
    for number, record in enumerate((moved, second)):
        await later.detach(node.pod(number), record)
        await later.settle(f"pod{number}")
    await later.close()
    assert node.left() == []


async def test_pods_of_a_former_range(node: Node) -> None:
    """While they are there new ones are refused, and Status says why; with the last of them the bridge follows."""
    network = node.network()
    await network.start()
    attached = await attach(network, node.pod(0))
    await network.close()
    later = node.network("10.90.0.0/16")
    await later.start()
    await later.gc({"pod0": attached})
    assert later.status().reason == "RangeChanged"
    await later.detach(node.pod(0), attached)
    await later.settle("pod0")
    assert later.status().ready
    moved = await attach(later, node.pod(1))
    assert moved.ips == ("10.90.0.2",)
    assert later.status().ready
    await later.detach(node.pod(1), moved)
    await later.settle("pod1")
    await later.close()
    assert node.left() == []


async def test_a_range_in_use_is_named(node: Node) -> None:
    subprocess.run(["ip", "link", "add", "office", "type", "bridge"], check=True)
    try:
        subprocess.run(["ip", "address", "add", "10.87.3.1/24", "dev", "office"], check=True)
        subprocess.run(["ip", "link", "set", "office", "up"], check=True)
        network = node.network()
        await network.start()
        assert network.status().reason == "RangeInUse"
        assert "10.87.0.0/16 overlaps with 10.87.3.0/24, which office leads to" in network.status().message
        await network.close()
    finally:
        with suppress(subprocess.CalledProcessError):
            subprocess.run(["ip", "link", "delete", "office"], check=True)
