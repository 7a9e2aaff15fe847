"""Exec through crictl on a real engine, over both transports. Traps 2, 3, 4 and 6."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.env import processes
from tests.env.engine import TestEngine
from tests.integration.server.crictl import TRANSPORTS, Crictl, Terminal, forwarded_port
from tests.integration.server.pods import RUNNING, Pod, container_status, make_container
from tests.integration.server.residue import strays
from tests.integration.server.serving import CALL, CrishimServer, code
from tests.integration.server.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.parametrize("transport", TRANSPORTS)]

_names = itertools.count(2_000_000)
_NUMBERS = b"".join(b"%d\n" % number for number in range(1, 2_000_001))
"""What `seq 1 2000000` prints."""


def inside(word: str) -> list[str]:
    """Processes with this word in their command line, but for the clients that asked for them."""
    return [line for line in strays(word) if "--transport=" not in line]


@pytest.fixture
def crictl(server: CrishimServer) -> Iterator[Crictl]:
    program = Crictl(server)
    yield program
    program.end()


@pytest.fixture
def container(server: CrishimServer) -> str:
    return Pod(server).start()


def test_output_and_exit_code(crictl: Crictl, container: str, transport: str) -> None:
    done = crictl.run("exec", transport, container, "sh", "-c", "echo out; echo err >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out\n", b"err\n")
    done = crictl.run("exec", transport, container, "sh", "-c", "echo last words; exit 7")
    assert done.stdout == b"last words\n"
    assert b"exit code 7" in done.stderr
    assert done.returncode != 0


def test_what_cannot_be_started(crictl: Crictl, container: str, transport: str) -> None:
    done = crictl.run("exec", transport, "-i", container, "/no/such/program", data=b"x" * (1 << 20))
    assert done.returncode != 0
    assert done.stdout == b""
    assert b"/no/such/program" in done.stderr
    assert b"no such file" in done.stderr


def test_bad_requests(server: CrishimServer, container: str, transport: str) -> None:
    good = pb.ExecRequest(container_id=container, cmd=["true"], stdout=True)
    assert server.client.Exec(good, timeout=CALL).url.startswith("http://127.0.0.1:")
    for bad in (
        pb.ExecRequest(container_id=container, cmd=["true"]),
        pb.ExecRequest(container_id=container, cmd=["true"], stdout=True, tty=True, stderr=True),
        pb.ExecRequest(container_id=container, stdout=True),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            server.client.Exec(bad, timeout=CALL)
        assert code(caught.value) is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError) as caught:
        server.client.Exec(pb.ExecRequest(container_id="nobody", cmd=["true"], stdout=True), timeout=CALL)
    assert code(caught.value) is grpc.StatusCode.NOT_FOUND


def test_half_close(crictl: Crictl, container: str, transport: str) -> None:
    """Trap 4."""
    done = crictl.run("exec", transport, "-i", container, "cat", data=b"hi\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hi\n", b"")
    done = crictl.run("exec", transport, "-i", container, "sh", "-c", "wc -c; exit 0", data=b"")
    assert done.stdout.strip() == b"0"


def test_large_input(crictl: Crictl, container: str, transport: str, scaled: Callable[[int], int]) -> None:
    """Trap 2: 64 MiB into a file, and through `cat` back."""
    data = os.urandom(64 << 20)
    expected = hashlib.md5(data).hexdigest().encode()
    for _ in range(scaled(20)):
        done = crictl.run("exec", transport, "-i", container, "sh", "-c", "cat > /tmp/f; md5sum < /tmp/f", data=data)
        assert done.stdout.split()[:1] == [expected], done.stderr
        done = crictl.run("exec", transport, "-i", container, "cat", data=data)
        assert hashlib.md5(done.stdout).hexdigest().encode() == expected, (len(done.stdout), done.stderr)


def test_output_read_slowly(crictl: Crictl, container: str, transport: str, scaled: Callable[[int], int]) -> None:
    """Trap 3: neither the end is cut nor the exit code lost."""
    expected = hashlib.md5(_NUMBERS).hexdigest()
    for _ in range(scaled(100)):
        process = crictl.start("exec", transport, container, "sh", "-c", "seq 1 2000000; exit 9")
        assert process.stdout is not None
        until(lambda: inside("seq 1 2000000"), "the process")
        found = hashlib.md5()
        last, read = b"", 0
        # At first nothing is read, and then little by little.
        os.set_blocking(process.stdout.fileno(), True)
        while piece := process.stdout.read(1 << 16):
            found.update(piece)
            last, read = (last + piece)[-20:], read + len(piece)
        assert last.splitlines()[-1:] == [b"2000000"]
        assert (read, found.hexdigest()) == (len(_NUMBERS), expected)
        assert b"exit code 9" in process.communicate()[1]


def test_slow_reader_holds_the_process_up(crictl: Crictl, container: str, transport: str) -> None:
    """What is not read is nowhere kept."""
    word = str(next(_names))
    process = crictl.start("exec", transport, container, "sh", "-c", f"yes | head -c 500000000; : {word}")
    until(lambda: inside(word), "the process")
    before = crictl.server.resident()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2)
    assert crictl.server.resident() < before + (16 << 20)
    process.kill()


def test_client_that_vanishes(crictl: Crictl, container: str, transport: str) -> None:
    """Trap 6: the process reads the end of its input, or its terminal hangs up."""
    word = str(next(_names))
    process = crictl.start("exec", transport, "-i", container, "sh", "-c", f"cat; : {word}")
    until(lambda: inside(word), "the process")
    process.kill()
    until(lambda: not inside(word), "the end of a process whose input has ended")
    command = crictl.command("exec", transport, "-i", "-t", container, "sleep", word)
    with Terminal(command, 24, 80):
        until(lambda: inside(f"sleep {word}"), "the process")
    until(lambda: not inside(f"sleep {word}"), "the end of a process whose terminal has hung up")


def test_terminal(crictl: Crictl, container: str, transport: str) -> None:
    """Its size, sizes that follow, keys that terminals keep for themselves, and the exit code."""
    wait = 'wait_for() { until [ "$(stty size 2>/dev/null)" = "$1" ]; do sleep 0.05; done; }'
    go_on = "stty raw -echo; echo go; head -c 4 | od -An -tx1; exit 5"
    script = f"{wait}; wait_for '33 99'; echo ready; wait_for '44 111'; {go_on}"
    command = crictl.command("exec", transport, "-i", "-t", container, "sh", "-c", script)
    with Terminal(command, 33, 99) as terminal:
        terminal.until(rb"ready\s")
        terminal.resize(44, 111)
        terminal.until(rb"go\s")
        for key in (b"\x03", b"\x1e", b"\x11", b"x"):
            terminal.type(key)
        terminal.until(rb"03 1e 11 78")
        terminal.until(rb"exit code 5")
        assert terminal.process.wait(20) != 0


def test_server_that_is_killed(
    new_server: Callable[..., CrishimServer], engine: TestEngine, transport: str, scaled: Callable[[int], int]
) -> None:
    """Sessions of all kinds break; the processes are the engine's alone, and it holds nothing for them any more."""
    server = new_server()
    server.start()
    crictl, word = Crictl(server), str(next(_names))
    pod = Pod(server)
    container = pod.start(make_container(command=["cat"], stdin=True))
    execs = [
        crictl.start("exec", transport, "-i", container, "sh", "-c", f"cat; : {word}")
        for _ in range(max(scaled(10), 3))
    ]
    attached = crictl.start("attach", transport, "-i", container)
    assert attached.stdin is not None
    assert attached.stdout is not None
    attached.stdin.write(b"hello\n")
    attached.stdin.flush()
    assert attached.stdout.readline() == b"hello\n"
    forwarded_port(crictl.start("port-forward", transport, pod.id, "0:9"))
    until(lambda: len(inside(word)) == len(execs), "all processes")

    def pipes() -> list[str]:
        """Newer engines name those of containers by their ids, too."""
        return [name for name in streams_of_execs(engine.pid) if name[:64] not in (pod.id, container)]

    assert len(pipes()) >= len(execs)
    server.kill9()
    crictl.end()
    # Whose input was the server's ends with it.
    until(lambda: not inside(word), "the end of processes whose input has ended")
    until(lambda: not pipes(), "the end of the engine's pipes")
    server.start()
    assert container_status(server, container).state == RUNNING
    server.remove_all()
    assert server.stop() == 0


def streams_of_execs(pid: int) -> list[str]:
    """Pipes of execs that the engine holds open, whose names are ids; those of containers begin with "init".

    (Their connections it closes when its garbage is collected, minutes later perhaps.)
    """
    names = [os.path.basename(target) for target in processes.opened(pid)]
    return [name for name in names if re.fullmatch(r"[0-9a-f]{64}-std(in|out|err)", name)]


def test_many_at_once(crictl: Crictl, container: str, transport: str, scaled: Callable[[int], int]) -> None:
    """Sessions side by side, each with its own input and output."""

    def talk(number: int) -> bytes:
        return crictl.run("exec", transport, "-i", container, "cat", data=b"%d\n" % number * 1000).stdout

    count = scaled(200)
    with ThreadPoolExecutor(12) as threads:  # fewer connections than the engine's client keeps for long
        for number, said in enumerate(threads.map(talk, range(count))):
            assert said == b"%d\n" % number * 1000
