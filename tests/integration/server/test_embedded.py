"""Pods on a machine without CNI: the embedded network, and what is around it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.env.engine import TestEngine
from tests.integration.server.pods import READY, Pod, make_container, make_pod
from tests.integration.server.residue import Quiet, assert_nothing_left
from tests.integration.server.serving import CrishimServer
from tests.integration.server.waiting import fetch

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
def outside() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """A machine elsewhere, which knows no way to pods: run Python on it, with its output piped to us."""
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 1000"], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.read(1)  # it is in its namespace
    into = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]

    def run(script: str, *arguments: str) -> subprocess.Popen[str]:
        command = [*into, sys.executable, "-c", script, *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    for words in (
        f"ip link add to-outside type veth peer name eth0 netns {holder.pid}",
        f"ip address add {HOST}/24 dev to-outside",
        "ip link set to-outside up",
    ):
        subprocess.run(words.split(), check=True)
    for words in (f"ip address add {OUTSIDE}/24 dev eth0", "ip link set eth0 up"):
        subprocess.run([*into, *words.split()], check=True)
    yield run
    subprocess.run(["ip", "link", "delete", "to-outside"], check=True)
    holder.kill()
    holder.wait()
    holder.stdout.close()


GET = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=5).read().decode())"
ACCEPT = "import socket; s = socket.create_server(('', 9)); print('up', flush=True); print(s.accept()[1][0])"


def test_everybody_reaches_everybody(world: CrishimServer, outside: Callable[..., subprocess.Popen[str]]) -> None:
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
    page = "until wget -qO- http://{}/; do sleep 0.1; done"
    for host in (four, f"[{six}]", "10.86.0.1:18081", "192.0.2.1:18081", "[fd00:86::1]:18081"):
        assert other.say(page.format(host)).strip() == name, f"pod to {host}"
        assert fetch(f"http://{host}/").strip() == name, f"host to {host}"
    assert pod.say(page.format("192.0.2.1:18081")).strip() == name, "a pod's own host port"
    assert fetch("http://127.0.0.1:18081/").strip() == name
    assert fetch("http://127.0.0.1:18082/").strip() == name
    with outside(GET, f"http://{HOST}:18081/") as client:
        assert client.communicate()[0].strip() == name
    with outside(GET, f"http://{HOST}:18082/") as client:
        assert client.wait() != 0, "this one is for loopback only"
    with outside(ACCEPT) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "up\n"
        other.say(f"nc -w 5 {OUTSIDE} 9 </dev/null")
        assert listener.stdout.readline().strip() == HOST, "the outside sees the host's address"
    world.restart()
    assert pod.status().network.ip == four
    assert pod.status().state == READY
    assert fetch("http://127.0.0.1:18081/").strip() == name
    pod.stop()
    assert other_ip == other.status().network.ip
