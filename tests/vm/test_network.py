"""What a pod's network needs of the kernel and the tests' host has not: SCTP, and VLANs on a bridge."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.vm.guest import Guest, wait_for
from tests.vm.node import Node, Pod

CONFLISTS = PurePosixPath("/etc/cni/net.d")
GATEWAY = "203.0.113.1"
"""On the bridge of these tests: TEST-NET-3 (RFC 5737)."""
SCTP = 132
"""The protocol's number, which Python has a name for only where it was built with SCTP's headers."""
SERVER = f"""
import socket, sys
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, {SCTP})
listener.bind(("0.0.0.0", 9000))
listener.listen()
print("listening", flush=True)
for _ in range(int(sys.argv[1])):
    client, _ = listener.accept()
    client.sendall(client.recv(100).upper())
    client.close()
"""
CLIENT = f"""
import socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, {SCTP})
server.settimeout(60)
server.connect((sys.argv[1], 19000))
server.sendall(b"through a host port")
print(server.recv(100).decode())
"""


@contextlib.contextmanager
def network(guest: Guest, name: str, **options: Any) -> Iterator[None]:
    """A network that comes before the node's own; ``options`` are the bridge plugin's."""
    bridge = {"type": "bridge", "bridge": "judged0", "isGateway": True, **options}
    # Docker drops what is forwarded, on bridges too: firewall lets the pods' packets pass.
    plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}, {"type": "firewall"}]
    path = str(CONFLISTS / f"05-{name}.conflist")
    guest.write(path, json.dumps({"cniVersion": "1.0.0", "name": name, "plugins": plugins}))
    try:
        yield
    finally:
        guest.run(f"rm {path}")


@pytest.fixture(autouse=True)
def nothing_left(guest: Guest) -> Iterator[None]:
    """The bridge and the addresses' folders, which plugins leave, are gone after a test."""
    yield
    leases = "/var/lib/cni/networks"
    assert guest.run(f"cd {leases} && find sctp vlan* -name '203.*'; true") == "", "addresses that nobody has"
    guest.run(f"rm -rf {leases}/sctp {leases}/vlan*; if [ -e /sys/class/net/judged0 ]; then ip link delete judged0; fi")


def local(first: int) -> dict[str, Any]:
    """The bridge's addresses, from this one on."""
    ranges = [[{"subnet": "203.0.113.0/24", "rangeStart": f"203.0.113.{first}", "gateway": GATEWAY}]]
    return {"type": "host-local", "ranges": ranges}


def address(node: Node, sandbox_id: str) -> str:
    """The pod's address."""
    ip: str = node.call("PodSandboxStatus", pod_sandbox_id=sandbox_id).status.network.ip
    return ip


def inside(sandbox_id: str, command: str) -> str:
    """The command line that runs this in a pod's network."""
    return f"ip netns exec crishim-{sandbox_id} {command}"


MAPPING = pb.PortMapping(protocol=pb.SCTP, container_port=9000, host_port=19000)


def serve(node: Node, pod: Pod, clients: int) -> None:
    """Let a pod listen on its SCTP port until so many clients were answered."""
    node.guest.write("/tmp/server.py", SERVER)
    node.guest.write("/tmp/client.py", CLIENT)
    node.guest.run("rm -f /tmp/served")
    node.guest.run(inside(pod.id, f"python3 /tmp/server.py {clients} >/tmp/served 2>&1 </dev/null &"))
    wait_for(lambda: node.guest.run("cat /tmp/served; true"), lambda text: text == "listening\n")


def test_sctp_through_a_host_port(node: Node) -> None:
    with network(node.guest, "sctp", ipam=local(10)), node.pod(port_mappings=[MAPPING]) as pod:
        serve(node, pod, 1)
        assert node.guest.run(f"python3 /tmp/client.py {GATEWAY}").strip() == "THROUGH A HOST PORT"
    assert "19000" not in node.guest.run("iptables-save")


EMBEDDED = "/etc/systemd/system/crishim.service.d/embedded.conf"


def restart(node: Node) -> None:
    """Let the service read its unit again."""
    node.guest.run("systemctl daemon-reload && systemctl restart crishim")
    node.reconnect()
    node.wait_ready()


@pytest.fixture
def embedded(node: Node) -> Iterator[None]:
    """The node gives its pods the embedded network; afterwards nothing of it is left."""
    node.guest.write(EMBEDDED, "[Service]\nEnvironment=CRISHIM_NETWORK=embedded\n")
    restart(node)
    yield
    node.guest.run(f"rm {EMBEDDED}")
    restart(node)
    assert "crishim0" not in node.guest.run("ls /sys/class/net")
    assert "--comment crishim" not in node.guest.run("iptables-save")


def test_sctp_through_a_host_port_of_the_embedded_network(node: Node, embedded: None) -> None:
    """From the host, from another pod, and from the pod itself, beside Docker, whose FORWARD chain drops."""
    with node.pod(port_mappings=[MAPPING]) as pod, node.pod() as other:
        serve(node, pod, 3)
        gateway = "10.86.0.1"
        assert address(node, pod.id).startswith("10.86.")
        for place in ("", inside(other.id, ""), inside(pod.id, "")):
            said = node.guest.run(f"{place}python3 /tmp/client.py {gateway}").strip()
            assert said == "THROUGH A HOST PORT", place
        with (
            pytest.raises(grpc.RpcError, match=r"host port 19000/sctp is taken by pod default/pod-"),
            node.pod(port_mappings=[MAPPING]),
        ):
            pass


def test_pods_on_a_bridges_vlans(node: Node) -> None:
    """Pods of one VLAN reach each other, those of another are not there for them."""
    with contextlib.ExitStack() as made:
        pods: list[Pod] = []
        for vlan in (100, 100, 200):
            # Each pod's network is the first while it is made.
            with contextlib.ExitStack() as alone:
                name = f"vlan{len(pods)}"
                alone.enter_context(network(node.guest, name, isGateway=False, vlan=vlan, ipam=local(100 + len(pods))))
                pods.append(made.enter_context(node.pod()))
        shown = json.loads(node.guest.run("bridge -j vlan show"))
        untagged = [
            vlan["vlan"]
            for port in shown
            if port["ifname"].startswith("veth")
            for vlan in port["vlans"]
            if "PVID" in vlan.get("flags", [])
        ]
        assert sorted(untagged) == [100, 100, 200]
        one, two, other = pods
        container = one.start()

        def ping(pod: Pod) -> tuple[int, str]:
            command = ["ping", "-c", "2", "-W", "10", address(node, pod.id)]
            done = node.call("ExecSync", container_id=container, cmd=command, timeout=120)
            return done.exit_code, done.stdout.decode()

        code, said = ping(two)
        assert code == 0, said
        code, said = ping(other)
        assert (code, "100% packet loss" in said) == (1, True), said
