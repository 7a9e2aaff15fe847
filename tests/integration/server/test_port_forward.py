"""Port-forward through crictl into real pods. Trap 8."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.integration.server.crictl import TRANSPORTS, Crictl, forwarded_port
from tests.integration.server.pods import Pod, make_container, make_pod, pod_linux
from tests.integration.server.serving import CALL, CrishimServer, code
from tests.integration.server.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.parametrize("transport", TRANSPORTS)]

PORT = 8080
SIZE = 8 << 20


@pytest.fixture
def crictl(server: CrishimServer) -> Iterator[Crictl]:
    program = Crictl(server)
    yield program
    program.end()


def serving(server: CrishimServer, address: str, pod: Pod | None = None) -> Pod:
    """A pod that serves a file of random bytes (`/data`) over HTTP at an address."""
    pod = pod or Pod(server)
    script = f"mkdir /tmp/www; head -c {SIZE} /dev/urandom > /tmp/www/data; md5sum < /tmp/www/data > /tmp/www/sum;"
    container = pod.start(make_container(command=["sh", "-c", f"{script} exec httpd -f -p {address} -h /tmp/www"]))
    request = pb.ExecSyncRequest(
        container_id=container, cmd=["grep", "-q", f":{PORT:04X} ", "/proc/net/tcp", "/proc/net/tcp6"]
    )
    until(lambda: server.client.ExecSync(request, timeout=CALL).exit_code == 0, "a server that listens")
    return pod


def fetch(port: int, path: str) -> bytes:
    """The body at a path."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(f"GET /{path} HTTP/1.0\r\n\r\n".encode())
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b" 200 " in head, answer[:200]
    return body


def whole(port: int) -> bool:
    """Whether the file arrives as it is."""
    return fetch(port, "sum").split()[0] == hashlib.md5(fetch(port, "data")).hexdigest().encode()


@pytest.mark.parametrize("address", [f"127.0.0.1:{PORT}", f"[::1]:{PORT}"])
def test_many_connections(crictl: Crictl, transport: str, address: str, scaled: Callable[[int], int]) -> None:
    """IPv4, and listeners on IPv6 alone."""
    pod = serving(crictl.server, address)
    port = forwarded_port(crictl.start("port-forward", transport, pod.id, f"0:{PORT}"))
    assert whole(port)
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(lambda _: whole(port), range(scaled(100))))


def test_refused_port_is_told(crictl: Crictl, transport: str) -> None:
    """The reason arrives. (That other connections live on is tried elsewhere: this client ends them all by itself.)"""
    pod = serving(crictl.server, f"127.0.0.1:{PORT}")
    process = crictl.start("port-forward", transport, pod.id, "0:9")
    with socket.create_connection(("127.0.0.1", forwarded_port(process)), timeout=CALL) as connection:
        assert connection.recv(100) == b""  # nothing is sent: what the client has not read would make this a reset
    process.kill()
    words = process.communicate()[1]
    assert re.search(rb"port 9 .*Connection refused", words), words
    assert whole(forwarded_port(crictl.start("port-forward", transport, pod.id, f"0:{PORT}")))


def test_host_network(crictl: Crictl, transport: str) -> None:
    """The host's loopback is the pod's: a listener of ours is reached."""
    options = pb.NamespaceOption(network=pb.NODE)
    pod = Pod(crictl.server, make_pod(crictl.server, linux=pod_linux(namespace_options=options)))
    data = os.urandom(1 << 20)
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        listener.settimeout(60)  # the block waits for the thread, whatever goes wrong in it

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                received = b""
                while piece := connection.recv(1 << 16):  # until the client's half is closed
                    received += piece
                connection.sendall(received[::-1])

        served = threads.submit(serve)
        port = forwarded_port(crictl.start("port-forward", transport, pod.id, f"0:{listener.getsockname()[1]}"))
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := connection.recv(1 << 16):
                answer += piece
        served.result()
    assert answer == data[::-1]


def test_ends_with_the_pod(crictl: Crictl, transport: str) -> None:
    pod = serving(crictl.server, f"127.0.0.1:{PORT}")
    process = crictl.start("port-forward", transport, pod.id, f"0:{PORT}")
    assert whole(forwarded_port(process))
    pod.remove()
    process.communicate(timeout=CALL)


def test_bad_requests(server: CrishimServer, transport: str) -> None:
    pod = Pod(server)
    for bad, expected in (
        (pb.PortForwardRequest(pod_sandbox_id="nobody"), grpc.StatusCode.NOT_FOUND),
        (pb.PortForwardRequest(pod_sandbox_id=pod.id, port=[70000]), grpc.StatusCode.INVALID_ARGUMENT),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            server.client.PortForward(bad, timeout=CALL)
        assert code(caught.value) is expected
    assert "/portforward/" in server.client.PortForward(pb.PortForwardRequest(pod_sandbox_id=pod.id), timeout=CALL).url
    pod.stop()
    with pytest.raises(grpc.RpcError) as caught:
        server.client.PortForward(pb.PortForwardRequest(pod_sandbox_id=pod.id), timeout=CALL)
    assert code(caught.value) is grpc.StatusCode.FAILED_PRECONDITION
    assert transport
