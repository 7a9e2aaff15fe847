"""The embedded network in real namespaces: foreign FORWARD chains, flushed rules, attaches cut off, earlier boots."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from crishim.errors import NetworkFailed
from crishim.model import PortMapping, Protocol
from crishim.network import netns
from crishim.network.api import Attached, PodAttachment, PodNetwork
from crishim.network.embedded.backend import EmbeddedNetwork
from crishim.network.memory import NetworkMemory
from crishim.network.setup import NetworkSetup
from tests.env import firewall

pytestmark = pytest.mark.root
FORWARD = "/proc/sys/net/bridge/bridge-nf-call-iptables"
SERVE = """
import socket
listener = socket.create_server(("", 80))
print("up", flush=True)
while True:
    peer, address = listener.accept()
    peer.sendall(address[0].encode())
    peer.close()
"""
ASK = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3])) as peer:
    print(peer.recv(99).decode())
"""


class Node:
    """A machine's folders, and pods with namespaces of their own."""

    def __init__(self, root: Path, pins: list[str]) -> None:
        self.run, self.state, self.pins = root / "run", root / "state", pins
        self.servers: list[subprocess.Popen[str]] = []

    def network(self, pod_cidr: str = "10.87.0.0/16") -> EmbeddedNetwork:
        """As a new process would have it."""
        return EmbeddedNetwork(
            NetworkSetup(memory=NetworkMemory(str(self.state)), run_dir=str(self.run), pod_cidr=pod_cidr)
        )

    def pod(self, number: int, host_port: int = 0) -> PodAttachment:
        ports = (PortMapping(container_port=80, host_port=host_port),)
        return PodAttachment(
            sandbox_id=f"pod{number}",
            netns_path=self.pins[number],
            name=f"web-{number}",
            namespace="shop",
            uid=f"u-{number}",
            port_mappings=ports,
        )

    def serve(self, number: int) -> None:
        """Answer on port 80 of this pod with the address of who asks."""
        command = ["nsenter", f"--net={self.pins[number]}", sys.executable, "-c", SERVE]
        self.servers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert self.servers[-1].stdout is not None
        assert self.servers[-1].stdout.readline() == "up\n"

    def ask(self, number: int | None, address: str, port: int, timeout: float = 10) -> str:
        """What that answers to a pod, None: to the host; "" when nothing answers."""
        into = [] if number is None else ["nsenter", f"--net={self.pins[number]}"]
        done = subprocess.run(
            [*into, sys.executable, "-c", ASK, address, str(port), str(timeout)],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip()

    def left(self) -> list[str]:
        folder = self.run / "networks" / "crishim"
        leases = [name for name in os.listdir(folder) if name[0].isdigit()] if folder.exists() else []
        rules = [rule for rule in firewall.rules() if "inet crishim" in rule]
        veths = json.loads(subprocess.check_output(["ip", "-j", "link", "show", "type", "veth"]))
        return [*leases, *rules, *(link["ifname"] for link in veths)]


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


async def attach(network: PodNetwork, pod: PodAttachment) -> Attached:
    return await network.attach(pod, network.plan(pod))


def iptables(*commands: str, flavour: str = "nft") -> None:
    for command in commands:
        subprocess.run([f"iptables-{flavour}", *command.split()], check=True)


def pair(chain: str, flavour: str) -> list[int]:
    """At which places of the chain the two rules are."""
    command = [f"iptables-{flavour}", "-S", chain]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rules = [rule for rule in listed.splitlines() if rule.startswith("-A")]
    return [place for place, rule in enumerate(rules, start=1) if "--comment crishim -j ACCEPT" in rule]


@pytest.mark.parametrize("flavour", ["nft", "legacy"])
@pytest.mark.parametrize("chain", ["DOCKER-USER", "FORWARD"])
async def test_a_foreign_chain_that_drops(node: Node, chain: str, flavour: str) -> None:
    """Docker's policy, with packets on a bridge passing FORWARD, too: the pair lets them, and goes with the bridge."""
    assert Path(FORWARD).read_text() == "1\n"
    if chain == "DOCKER-USER":
        iptables("-N DOCKER-USER", "-A DOCKER-USER -j RETURN", "-A FORWARD -j DOCKER-USER", flavour=flavour)
    iptables("-P FORWARD DROP", flavour=flavour)
    foreign = [rule for rule in firewall.rules() if "crishim" not in rule]
    network = node.network()
    await network.start()
    pod, other = node.pod(0), node.pod(1)
    attached, also = await attach(network, pod), await attach(network, other)
    node.serve(0)
    assert node.ask(1, attached.ips[0], 80) == also.ips[0]
    assert pair(chain, flavour) == [1, 2], "at its head"
    iptables(f"-F {chain}", flavour=flavour)
    if chain == "DOCKER-USER":
        iptables("-A DOCKER-USER -j RETURN", flavour=flavour)
    assert node.ask(1, attached.ips[0], 80, timeout=0.5) == ""
    await network._rules.mend()
    assert pair(chain, flavour) == [1, 2]
    assert node.ask(1, attached.ips[0], 80) == also.ips[0]
    await network.detach(pod, attached)
    await network.detach(other, also)
    await network.settle(pod.sandbox_id)
    await network.settle(other.sandbox_id)
    await network.close()
    assert pair(chain, flavour) == []
    assert [rule for rule in firewall.rules() if "crishim" not in rule] == foreign
    assert node.left() == []


@pytest.mark.parametrize("flavour", ["nft", "legacy"])
async def test_a_rule_against_somebody_is_not_overruled(node: Node, flavour: str) -> None:
    """Only what drops whatever comes is: a policy, or a last rule, as Red Hat's."""
    iptables("-A FORWARD -s 192.0.2.9 -j DROP", flavour=flavour)
    network = node.network()
    await network.start()
    assert pair("FORWARD", flavour) == []
    iptables("-A FORWARD -j REJECT", flavour=flavour)
    await network._rules.mend()
    assert pair("FORWARD", flavour) == [1, 2]
    await network.close()
    assert pair("FORWARD", flavour) == []


async def test_a_missing_tool_is_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    iptables("-P FORWARD DROP")
    monkeypatch.setenv("PATH", "/nowhere")
    network = node.network()
    await network.start()
    monkeypatch.undo()
    status = network.status()
    assert not status.ready
    assert status.reason == "PacketFilter"
    assert "iptables-nft is not installed" in status.message
    await network.close()


async def test_flushed_rules_come_back(node: Node, network: EmbeddedNetwork) -> None:
    """At the next attach, those of the other pods, too; and by a look now and then."""
    first = await attach(network, node.pod(0, host_port=18200))
    node.serve(0)
    assert node.ask(None, "127.0.0.1", 18200) == "10.87.0.1"
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
    with pytest.raises(NetworkFailed, match=r"host port 18200/tcp is taken \(by crishim pod0 eth0\)"):
        await network.attach(node.pod(1), planned)
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
    left = node.left()
    assert attached.ips[0] in left
    assert not [name for name in left if "pod1" in name or name == "10.87.0.3"], left
    await later.gc({})
    assert [name for name in node.left() if not name.startswith("veth")] == []
    await later.detach(kept, attached)
    await later.close()


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
