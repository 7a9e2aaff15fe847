"""Pods on a machine without CNI: the embedded network, and what is around it."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.env.engine import TestEngine
from tests.integration.server.pods import READY, Pod, make_container, make_pod
from tests.integration.server.residue import Quiet, assert_nothing_left
from tests.integration.server.serving import CrishimServer
from tests.integration.server.waiting import until

pytestmark = pytest.mark.engine
HTTPD = ["sh", "-c", "mkdir /tmp/www; hostname >/tmp/www/index.html; exec httpd -f -p 80 -h /tmp/www"]
OUTSIDE, HOST = "192.0.2.2", "192.0.2.1"


@pytest.fixture
def world(new_server: Callable[..., CrishimServer], engine: TestEngine) -> Iterator[CrishimServer]:
    """A server on a machine without CNI. After the test all is removed, and nothing is left."""
    server = new_server(embedded=True, flags=["--pod-cidr=10.86.0.0/16,fd00:86::/64"])
    server.start()
    quiet = Quiet.of(server)
    yield server
    server.remove_all()
    assert_nothing_left(server, engine.api, quiet)
    assert server.stop() == 0
    assert "crishim0" not in dict(socket.if_nameindex()).values(), "the bridge goes with the last pod and the server"


@pytest.fixture
def outside() -> Iterator[Callable[..., str]]:
    """A machine elsewhere, which knows no way to pods: run a command on it."""
    with ExitStack() as stack:

        def sh(command: str) -> str:
            return subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout

        stack.callback(subprocess.run, ["ip", "netns", "delete", "elsewhere"], check=True)
        sh("ip netns add elsewhere && ip link add to-outside type veth peer name eth0 netns elsewhere")
        sh(f"ip address add {HOST}/24 dev to-outside && ip link set to-outside up")
        sh(f"ip -n elsewhere address add {OUTSIDE}/24 dev eth0 && ip -n elsewhere link set eth0 up")
        yield lambda command: sh(f"ip netns exec elsewhere {command}")


def fetch(url: str) -> str:
    """A page as the host gets it, once somebody serves it."""
    command = ["busybox", "wget", "-T", "2", "-q", "-O", "-", url]
    return until(lambda: subprocess.run(command, capture_output=True, text=True, check=False).stdout, url)


def docker_like(world: CrishimServer) -> None:
    """Drop what is forwarded, as Docker does, and let packets on a bridge pass there, too."""


def test_everybody_reaches_everybody(world: CrishimServer, outside: Callable[..., str]) -> None:
    """Pods, the host, and the outside; host ports by every way there is."""
    ports = [
        pb.PortMapping(container_port=80, host_port=18081),
        pb.PortMapping(container_port=80, host_port=18082, host_ip="127.0.0.1"),
    ]
    assert world.condition("NetworkReady").status
    pod, other = Pod(world, make_pod(world, port_mappings=ports)), Pod(world)
    name = pod.config.metadata.name
    pod.start(make_container("web", command=HTTPD))
    status = pod.status()
    four, six = status.network.ip, status.network.additional_ips[0].ip
    assert (four[:6], six[:8]) == ("10.86.", "fd00:86:")
    other_ip = other.status().network.ip
    page = "until wget -T 2 -qO- http://{}/; do sleep 0.1; done"
    for host in (four, f"[{six}]", "10.86.0.1:18081", "192.0.2.1:18081", "[fd00:86::1]:18081"):
        assert other.say(page.format(host)).strip() == name, f"pod to {host}"
        assert fetch(f"http://{host}/").strip() == name, f"host to {host}"
    assert pod.say(page.format("192.0.2.1:18081")).strip() == name, "a pod's own host port"
    assert fetch("http://127.0.0.1:18081/").strip() == name
    assert fetch("http://127.0.0.1:18082/").strip() == name
    assert outside(f"busybox wget -T 2 -qO- http://{HOST}:18081/").strip() == name
    with pytest.raises(subprocess.CalledProcessError):
        outside(f"busybox wget -T 2 -qO- http://{HOST}:18082/")
    with subprocess.Popen(
        ["ip", "netns", "exec", "elsewhere", "busybox", "nc", "-l", "-p", "9", "-v"], stderr=subprocess.PIPE, text=True
    ) as listener:
        other.say(f"until echo hello | nc -w 1 {OUTSIDE} 9; do sleep 0.1; done")
        assert listener.stderr is not None
        assert HOST in listener.stderr.read(), "the outside sees the host's address"
    world.restart()
    assert pod.status().network.ip == four
    assert pod.status().state == READY
    assert fetch("http://127.0.0.1:18081/").strip() == name
    pod.stop()
    assert other_ip == other.status().network.ip
