"""ExecSync on a real engine: what it gives, what it kills, what it withholds. Traps 1 and 7."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import MESSAGE_LIMIT
from tests.env import images
from tests.env.engine import TestEngine
from tests.integration.server.pods import Pod, linux, make_container, pid_of
from tests.integration.server.residue import assert_nothing_left, strays
from tests.integration.server.serving import CALL, CrishimServer, code, text
from tests.integration.server.waiting import until

pytestmark = pytest.mark.engine

_names = itertools.count(1_000_000)


def run(server: CrishimServer, container_id: str, *command: str, timeout: int = 0) -> pb.ExecSyncResponse:
    """ExecSync."""
    request = pb.ExecSyncRequest(container_id=container_id, cmd=command, timeout=timeout)
    answer: pb.ExecSyncResponse = server.client.ExecSync(request, timeout=CALL)
    return answer


def refusal(server: CrishimServer, container_id: str, *command: str, timeout: int = 0) -> grpc.RpcError:
    """The error of an ExecSync that fails."""
    with pytest.raises(grpc.RpcError) as caught:
        run(server, container_id, *command, timeout=timeout)
    return caught.value


def seconds() -> str:
    """A time to sleep by which the processes of one test are known."""
    return str(next(_names))


def gone(word: str) -> None:
    """Wait until no process of the world has this word in its command line."""
    until(lambda: not strays(word), f"the end of {strays(word)}")


def test_output_and_exit_codes(server: CrishimServer) -> None:
    container = Pod(server).start()
    answer = run(server, container, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (answer.stdout, answer.stderr, answer.exit_code) == (b"out\n", b"err\n", 3)
    for script, expected in (("exit 0", 0), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143)):
        assert run(server, container, "sh", "-c", script).exit_code == expected
    answer = run(
        server, container, "sh", "-c", "head -c 5000000 /dev/urandom | tee /tmp/x; md5sum /tmp/x >&2", timeout=30
    )
    assert len(answer.stdout) == 5_000_000
    assert run(server, container, "md5sum", "/tmp/x").stdout == answer.stderr


def test_the_process_is_as_the_container(server: CrishimServer) -> None:
    config = make_container(linux=linux(run_as_user=pb.Int64Value(value=1234)), working_dir="/usr")
    config.envs.add(key="FROM", value=b"the container")
    container = Pod(server).start(config)
    answer = run(server, container, "sh", "-c", 'id -u; pwd; echo "$FROM"')
    assert answer.stdout == b"1234\n/usr\nthe container\n"


def test_what_cannot_be_started(server: CrishimServer) -> None:
    container = Pod(server).start()
    for program, words in (("/no/such/program", "no such file"), ("/etc/passwd", "permission denied")):
        error = refusal(server, container, program)
        assert code(error) is grpc.StatusCode.FAILED_PRECONDITION
        assert program in text(error)
        assert words in text(error)


def test_user_that_is_not_there_any_more(server: CrishimServer) -> None:
    """An exec runs as its container's user, whom the engine looks up each time."""
    container = Pod(server).start(make_container(linux=linux(run_as_username="root")))
    assert run(server, container, "sh", "-c", "echo > /etc/passwd").exit_code == 0
    error = refusal(server, container, "true")
    assert code(error) is grpc.StatusCode.FAILED_PRECONDITION
    assert "unable to find user root" in text(error)


def test_hung_probes_are_killed_with_their_children(
    server: CrishimServer, engine: TestEngine, scaled: Callable[[int], int]
) -> None:
    """Trap 1: DEADLINE_EXCEEDED in time, nothing of them left, and the container as it was."""
    container, probes = Pod(server).start(make_container(command=["sleep", "infinity"])), max(scaled(20), 8)
    first, word = pid_of(engine.api, container), seconds()
    script = f"sleep {word} & (setsid sleep {word}; :) & (sleep {word} & exec sleep {word}) & sleep {word}"

    def probe(_: int) -> float:
        began = time.monotonic()
        assert code(refusal(server, container, "sh", "-c", script, timeout=1)) is grpc.StatusCode.DEADLINE_EXCEEDED
        return time.monotonic() - began

    # The promise is a second from the timeout. All at once (and for whoever else is busy) the machine has its say.
    with ThreadPoolExecutor(probes) as threads:
        took = [probe(0), *threads.map(probe, range(probes))]
    assert min(took) >= 1.0
    assert min(took) < 2.0, took
    assert max(took) < CALL / 2, took
    gone(word)
    assert pid_of(engine.api, container) == first
    assert run(server, container, "echo", "well").stdout == b"well\n"


def test_nobody_else_is_killed(server: CrishimServer) -> None:
    """Containers that share a PID namespace, and other execs, live on."""
    pod = Pod(server)
    mine, other = seconds(), seconds()
    container = pod.start(make_container(command=["sh", "-c", f"sleep {other} & sleep {other}"]))
    with ThreadPoolExecutor(1) as threads:
        long = threads.submit(run, server, container, "sleep", "3")
        assert (
            code(refusal(server, container, "sh", "-c", f"sleep {mine} & sleep {mine}", timeout=1))
            is grpc.StatusCode.DEADLINE_EXCEEDED
        )
        gone(mine)
        assert long.result().exit_code == 0
    assert len(strays(f"sleep {other}")) >= 2


def test_call_that_was_given_up_is_killed(server: CrishimServer) -> None:
    container, word = Pod(server).start(), seconds()
    request = pb.ExecSyncRequest(container_id=container, cmd=["sh", "-c", f"sleep {word} & sleep {word}"])
    with pytest.raises(grpc.RpcError):
        server.client.ExecSync(request, timeout=1)
    gone(word)


@pytest.mark.parametrize("timeout", [0, 2, 45])
def test_child_that_keeps_the_output_open(server: CrishimServer, timeout: int) -> None:
    """It holds up no answer, and is not killed: the command has ended well, and in time."""
    container, word = Pod(server).start(), seconds()
    began = time.monotonic()
    answer = run(server, container, "sh", "-c", f"sleep {word} & echo started; exit 4", timeout=timeout)
    assert (answer.stdout, answer.exit_code) == (b"started\n", 4)
    assert time.monotonic() - began < 30, "long before its time is over"
    assert strays(f"sleep {word}")


def test_output_beyond_what_an_answer_holds(server: CrishimServer, scaled: Callable[[int], int]) -> None:
    """Trap 7: capped, the exit code kept, memory given back."""
    container, at_once = Pod(server).start(), scaled(10)
    command = ["sh", "-c", "yes | head -c 20000000; echo end >&2; exit 5"]

    def probe(_: int) -> tuple[int, int]:
        answer = run(server, container, *command, timeout=50)
        assert answer.ByteSize() <= MESSAGE_LIMIT
        return answer.exit_code, len(answer.stdout)

    before, waves = server.resident(), 5
    with ThreadPoolExecutor(at_once) as threads:
        for _ in range(waves):
            answers = set(threads.map(probe, range(at_once)))
            assert {exit_code for exit_code, _ in answers} == {5}
            assert min(size for _, size in answers) > 15 << 20
    # One answer kept in each wave would be 80 MiB.
    most = before + (60 << 20)
    until(lambda: server.resident() < most, f"not much more memory than the {before >> 20} MiB of before")


def test_engine_that_is_killed_meanwhile(
    new_server: Callable[..., CrishimServer], new_engine: Callable[..., TestEngine]
) -> None:
    """The call fails as the engine does, and what the engine has forgotten is killed when it is back."""
    own = new_engine(config={"live-restore": True})
    images.busybox().load(own.api, images.BUSYBOX_REF)
    server = new_server(engine_url=own.url, flags=["--log-level=debug"])
    server.start()
    container, word = Pod(server).start(), seconds()
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(refusal, server, container, "sleep", word)
        until(lambda: strays(f"sleep {word}"), "the process")
        until(lambda: b" is Process(pid=" in server.log.read_bytes(), "a server that knows it")
        own.kill9()
        assert code(call.result()) is grpc.StatusCode.UNAVAILABLE
    assert strays(f"sleep {word}")
    own.start()
    gone(word)
    server.wait_ready()
    server.remove_all()
    assert server.stop() == 0


def test_server_that_is_killed_meanwhile(new_server: Callable[..., CrishimServer], engine: TestEngine) -> None:
    """The process is the engine's, and goes with its container; the next server knows all there is."""
    server = new_server()
    server.start()
    container, word = Pod(server).start(), seconds()
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(refusal, server, container, "sleep", word)
        until(lambda: strays(f"sleep {word}"), "the process")
        server.kill9()
        call.result()
    server.start()
    assert run(server, container, "echo", "again").stdout == b"again\n"
    server.remove_all()
    gone(word)
    assert_nothing_left(server, engine.api)
    assert server.stop() == 0


def test_probes_do_not_upset_the_watch(server: CrishimServer, engine: TestEngine) -> None:
    """A storm of them, and an exit behind our back is seen at once all the same."""
    pod = Pod(server)
    container, other = pod.start(), pod.start(make_container("other"))
    with ThreadPoolExecutor(8) as threads:
        storm = [threads.submit(run, server, container, "true") for _ in range(64)]
        engine.api.call("POST", f"/containers/{other}/kill")
        assert pod.ended(other).exit_code == 137
        assert {probe.result().exit_code for probe in storm} == {0}
