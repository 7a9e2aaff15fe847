"""A machine with the embedded network and pods in real namespaces, for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from crishim.model import PortMapping
from crishim.network.api import Attached, PodAttachment, PodNetwork
from crishim.network.embedded.backend import EmbeddedNetwork
from crishim.network.memory import NetworkMemory
from crishim.network.setup import NetworkSetup
from tests.env import firewall

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


async def attach(network: PodNetwork, pod: PodAttachment) -> Attached:
    return await network.attach(pod, network.plan(pod))
