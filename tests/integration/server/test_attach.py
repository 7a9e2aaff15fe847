"""Attach through crictl on a real engine. Traps 4 and 6."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.integration.server.crictl import TRANSPORTS, Crictl, Terminal
from tests.integration.server.pods import RUNNING, Pod, container_status, make_container
from tests.integration.server.serving import CALL, CrishimServer, code
from tests.integration.server.waiting import settles

pytestmark = [pytest.mark.engine, pytest.mark.parametrize("transport", TRANSPORTS)]

_names = itertools.count(3_000_000)


@pytest.fixture
def crictl(server: CrishimServer) -> Iterator[Crictl]:
    program = Crictl(server)
    yield program
    program.end()


def test_stdin_once(crictl: Crictl, transport: str) -> None:
    """The end of the client's input is the container's, whose last words arrive."""
    pod = Pod(crictl.server)
    container = pod.start(make_container(command=["sh", "-c", "cat; echo end"], stdin=True, stdin_once=True))
    done = crictl.run("attach", transport, "-i", container, data=b"hi\n" * 100_000)
    assert (done.returncode, done.stdout) == (0, b"hi\n" * 100_000 + b"end\n"), done.stderr
    assert pod.ended(container).exit_code == 0


def test_stdin_that_stays_open(crictl: Crictl, transport: str) -> None:
    """One client's end of input is not the container's."""
    pod = Pod(crictl.server)
    container = pod.start(make_container(command=["cat"], stdin=True))
    for word in (b"one\n", b"two\n"):
        process = crictl.start("attach", transport, "-i", container)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(word)
        process.stdin.close()
        assert process.stdout.readline() == word
        process.kill()
        process.wait()
    assert container_status(crictl.server, container).state == RUNNING


def test_output_until_the_container_ends(crictl: Crictl, transport: str) -> None:
    """Two see the same; what was printed before is not repeated."""
    pod = Pod(crictl.server)
    config = make_container(command=["sh", "-c", "echo early; read x; seq 1 100000; exit 3"], stdin=True)
    container = pod.start(config)
    first = crictl.start("attach", transport, container)
    second = crictl.start("attach", transport, "-i", container)
    assert second.stdin is not None
    assert settles(lambda: [] if crictl.server.descriptors()["socket"] >= 2 else ["no client"]) == []
    second.stdin.write(b"go\n")
    second.stdin.flush()
    expected = b"".join(b"%d\n" % number for number in range(1, 100_001))
    assert second.stdout is not None
    assert second.stdout.read() in (expected, b"early\n" + expected)
    assert pod.ended(container).exit_code == 3
    first.communicate()


def test_terminal(crictl: Crictl, transport: str) -> None:
    """A container's terminal takes the client's size."""
    script = 'until [ "$(stty size 2>/dev/null)" = "31 97" ]; do sleep 0.05; done; echo sized; read x; echo "got $x"'
    pod = Pod(crictl.server)
    container = pod.start(make_container(command=["sh", "-c", script], stdin=True, tty=True))
    with Terminal(crictl.command("attach", transport, "-i", "-t", container), 31, 97) as terminal:
        terminal.until(rb"sized")
        terminal.type(b"word\n")
        terminal.until(rb"got word")
        assert pod.ended(container).exit_code == 0
        assert terminal.process.wait(20) == 0


def test_bad_requests(server: CrishimServer, transport: str) -> None:
    container = Pod(server).start()
    for bad in (
        pb.AttachRequest(container_id=container),
        pb.AttachRequest(container_id=container, stdout=True, stderr=True, tty=True),
        pb.AttachRequest(container_id=container, stdout=True, tty=True),
        pb.AttachRequest(container_id=container, stdout=True, stdin=True),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            server.client.Attach(bad, timeout=CALL)
        assert code(caught.value) is grpc.StatusCode.INVALID_ARGUMENT
    assert transport


def test_dropped_clients(crictl: Crictl, transport: str, scaled: Callable[[int], int]) -> None:
    """Trap 6: many come, and are killed at some moment; the fixture looks for what they leave in the server."""
    container = Pod(crictl.server).start(make_container(command=["cat"], stdin=True))
    for number in range(max(scaled(1000) // 10, 10)):
        several = [crictl.start("attach", transport, "-i", container) for _ in range(5)]
        for process in several:
            assert process.stdin is not None
            process.stdin.write(b"x\n")
            process.stdin.flush()
        for process in several[number % 6 :]:  # these are attached, the others somewhere on their way
            assert process.stdout is not None
            assert process.stdout.read(1) == b"x"
        for process in several:
            process.kill()
            process.wait()
    assert container_status(crictl.server, container).state == RUNNING
