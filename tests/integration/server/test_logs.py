"""Container logs in the kubelet's format, from a real engine's spool: complete, in order, none twice."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import random
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.env import linux
from tests.env.engine import TestEngine
from tests.env.images import BUSYBOX_REF, busybox
from tests.integration.server.pods import EXITED, RUNNING, Pod, container_status, make_container, make_pod, read_log
from tests.integration.server.serving import CALL, CrishimServer, code, text
from tests.integration.server.waiting import until

LINE = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}Z (stdout|stderr) [FP] .*\n")


def reopen(server: CrishimServer, container_id: str) -> None:
    server.client.ReopenContainerLog(pb.ReopenContainerLogRequest(container_id=container_id), timeout=CALL)


def refused(server: CrishimServer, container_id: str) -> str | None:
    """Why ReopenContainerLog failed: of a container that has ended meanwhile. None: it did not."""
    try:
        reopen(server, container_id)
    except grpc.RpcError as error:
        if code(error) is not grpc.StatusCode.FAILED_PRECONDITION:
            raise
        return text(error)
    return None


def test_what_is_printed_is_in_the_log(server: CrishimServer) -> None:
    pod = Pod(server)
    script = """echo one; echo two >&2; printf 'a\\tb "q" <&> \\\\ back\\r\\n'; printf 'no end' """
    container = pod.start(make_container("says", command=["sh", "-c", script]))
    log = Path(pod.ended(container).log_path)
    assert log == server.logs / pod.config.metadata.name / "says_0.log"
    lines = log.read_bytes().splitlines(keepends=True)
    assert all(LINE.fullmatch(line) for line in lines)
    said = [line.split(b" ", 1)[1] for line in lines]
    assert sorted(said, key=lambda s: s.startswith(b"stderr")) == [
        b"stdout F one\n", b"stdout F a\tb \"q\" <&> \\ back\r\n", b"stdout P no end\n", b"stderr F two\n",
    ]  # fmt: skip
    stat = log.stat()
    assert (stat.st_mode & 0o777, stat.st_uid) == (0o640, 0)


def assert_complete(server: CrishimServer, logs: list[Path], wanted: str) -> None:
    """What a container that is told to have ended has said; later only where the server says that it is late."""
    if "".join(map(read_log, logs)) != wanted:
        assert "its log is not complete after" in server.log.read_text()
        until(lambda: "".join(map(read_log, logs)) == wanted, "the rest of the log")


def test_an_exit_is_told_when_the_log_is_complete(server: CrishimServer, scaled: Callable[[int], int]) -> None:
    pod = Pod(server)
    for number in range(scaled(100)):
        container = pod.start(make_container("short", attempt=number, command=["echo", f"life {number}"]))
        assert_complete(server, [Path(pod.ended(container).log_path)], f"life {number}\n")
    container = pod.start(make_container("long", command=["sh", "-c", "seq 1 200000"]))
    assert_complete(server, [Path(pod.ended(container).log_path)], "".join(f"{n}\n" for n in range(1, 200001)))


def test_it_follows_what_is_printed(server: CrishimServer) -> None:
    pod = Pod(server)
    container = pod.start(make_container(command=["sh", "-c", "while read line; do echo $line; done"], stdin=True))
    log = Path(container_status(server, container).log_path)
    assert log.read_bytes() == b"", "it is there from the start on"


def test_rotation_as_a_kubelet_does_it(server: CrishimServer) -> None:
    pod = Pod(server)
    script = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); echo $i; done"
    container = pod.start(make_container("counts", command=["sh", "-c", script]))
    log = Path(container_status(server, container).log_path)
    parts: list[Path] = []
    while container_status(server, container).state != EXITED:
        if not log.exists() or not log.stat().st_size:
            continue
        parts.append(log.with_name(f"{log.name}.{len(parts):08}"))
        log.rename(parts[-1])
        if refused(server, container) is None:
            assert log.exists()
        else:
            assert not log.exists(), "no new file on error"
            parts.pop().rename(log)
    parts.append(log)
    for part in parts:
        assert part.read_bytes()[-1:] in (b"", b"\n")
    assert len(parts) > 1
    assert "".join(map(read_log, parts)) == "".join(f"{n}\n" for n in range(1, 60001))
    with pytest.raises(grpc.RpcError) as raised:
        reopen(server, container)
    assert code(raised.value) is grpc.StatusCode.FAILED_PRECONDITION


def test_a_reopened_log_whose_folder_is_gone_or_no_folder(server: CrishimServer, tmp_path: Path) -> None:
    pod = Pod(server)
    container = pod.start(make_container("main", log_path="sub/main.log"))
    log = Path(container_status(server, container).log_path)
    os.unlink(log)
    log.parent.rmdir()
    reopen(server, container)
    assert log.exists(), "the folder was made again"
    os.unlink(log)
    log.parent.rmdir()
    log.parent.symlink_to(tmp_path)
    with pytest.raises(grpc.RpcError) as raised:
        reopen(server, container)
    assert str(log.parent) in text(raised.value)
    assert not list(tmp_path.iterdir())
    log.parent.unlink()
    reopen(server, container)
    linux.mount("tmpfs", log.parent, "tmpfs", flags=1)  # MS_RDONLY
    with pytest.raises(grpc.RpcError) as raised:
        reopen(server, container)
    assert code(raised.value) is grpc.StatusCode.FAILED_PRECONDITION
    assert f"{log}: Read-only file system" in text(raised.value)
    linux.umount(log.parent)
    reopen(server, container)


@pytest.mark.parametrize("what", ["link", "folder", "file", "pipe"])
def test_nothing_of_the_hosts_is_written(server: CrishimServer, tmp_path: Path, what: str) -> None:
    config = make_pod(server)
    log = Path(config.log_directory) / "main_0.log"
    log.parent.mkdir(parents=True)
    precious = tmp_path / "precious"
    precious.write_text("of the host\n")
    if what == "link":
        log.symlink_to(precious)
    elif what == "folder":
        log.mkdir()
    elif what == "pipe":
        os.mkfifo(log)
    else:
        os.link(precious, log)
    pod = Pod(server, config)
    container = pod.create(make_container())
    with pytest.raises(grpc.RpcError) as raised:
        server.client.StartContainer(pb.StartContainerRequest(container_id=container), timeout=CALL)
    assert code(raised.value) is grpc.StatusCode.FAILED_PRECONDITION
    assert str(log) in text(raised.value)
    assert precious.read_text() == "of the host\n"
    if what == "folder":
        log.rmdir()
    else:
        log.unlink()
    server.client.StartContainer(pb.StartContainerRequest(container_id=container), timeout=CALL)
    assert log.is_file()


def test_what_was_said_last_is_in_the_log_of_a_removed_container(server: CrishimServer) -> None:
    pod = Pod(server)
    script = "i=0; while :; do i=$((i+1)); echo $i; done"
    container = pod.start(make_container("loud", command=["sh", "-c", script]))
    log = Path(container_status(server, container).log_path)
    until(lambda: log.stat().st_size > 100_000, "some lines")
    server.client.RemoveContainer(pb.RemoveContainerRequest(container_id=container), timeout=CALL)
    numbers = [int(line) for line in read_log(log).split("\n") if line.isdecimal()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers[-1] > 10_000


def counted(parts: list[Path]) -> list[int]:
    """The numbers in a log and its rotated parts."""
    said = "".join(
        read_log(part) if part.suffix != ".gz" else _text(gzip.decompress(part.read_bytes())) for part in parts
    )
    return [int(line) for line in said.splitlines()]


def _text(lines: bytes) -> str:
    return "".join(line.split(" ", 3)[3] + "\n" for line in lines.decode().splitlines())


COUNT = "i=0; while :; do i=$((i+1)); echo $i; done"
CALMLY = COUNT.replace("echo $i;", "echo $i; [ $((i % 500)) = 0 ] && sleep 0.05;")
"""No more than the spool holds while a server starts."""


def test_a_counter_at_full_speed_under_a_kubelets_rotation(server: CrishimServer, scaled: Callable[[int], int]) -> None:
    """Rename, reopen, compress the one before, delete the oldest: what is left has no gap."""
    pod = Pod(server)
    container = pod.start(make_container("counts", command=["sh", "-c", COUNT]))
    log = Path(container_status(server, container).log_path)
    kept: list[Path] = []
    end = time.monotonic() + scaled(60)
    for number in itertools.count():
        until(lambda: log.stat().st_size > 50_000, "something to rotate")
        if kept and kept[-1].suffix != ".gz":
            packed = kept[-1].with_name(f"{kept[-1].name}.gz")
            packed.write_bytes(gzip.compress(kept[-1].read_bytes(), 1))
            kept[-1].unlink()
            kept[-1] = packed
        if len(kept) > 4:
            kept.pop(0).unlink()
        kept.append(log.rename(log.with_name(f"{log.name}.{number:06}")))
        reopen(server, container)
        if time.monotonic() > end:
            break
    server.client.StopContainer(pb.StopContainerRequest(container_id=container), timeout=CALL)
    numbers = counted([*kept, log])
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert number > 3


def test_a_full_disk_leaves_no_gap(new_server: Callable[..., CrishimServer], engine: TestEngine) -> None:
    server = new_server()
    server.start()
    config = make_pod(server)
    folder = Path(config.log_directory)
    folder.mkdir(parents=True)
    linux.mount("tmpfs", folder, "tmpfs", data="size=256k")
    pod = Pod(server, config)
    container = pod.start(
        make_container(command=["sh", "-c", "seq 1 50000; trap 'exit 0' TERM; while :; do sleep 0.05; done"])
    )
    log = folder / "main_0.log"

    def logs() -> dict[str, int]:
        status = server.client.Status(pb.StatusRequest(verbose=True), timeout=CALL)
        found: dict[str, int] = json.loads(status.info["logs"])
        return found

    until(lambda: logs()["full_disk"] > 0, "the disk is full")
    assert container_status(server, container).state == RUNNING
    assert log.read_bytes().endswith(b"\n"), "torn"
    assert "no room to write" in server.log.read_text()
    linux.mount("tmpfs", folder, "tmpfs", flags=32, data="size=8m")  # MS_REMOUNT
    until(lambda: counted([log])[-1] == 50000, "the rest")
    assert counted([log]) == list(range(1, 50001))
    until(lambda: "there is room again" in server.log.read_text(), "the server tells")
    server.remove_all()
    assert server.stop() == 0


@pytest.mark.parametrize("how", ["stop", "kill9"])
def test_what_is_printed_while_the_server_is_down(
    new_server: Callable[..., CrishimServer], engine: TestEngine, how: str
) -> None:
    server = new_server()
    server.start()
    pod = Pod(server)
    runs = pod.start(make_container("runs", command=["sh", "-c", CALMLY]))
    ends = pod.start(make_container("ends", command=["sh", "-c", "seq 1 20000; sleep 1; seq 20001 40000"]))
    logs = {name: Path(container_status(server, i).log_path) for name, i in (("runs", runs), ("ends", ends))}
    until(lambda: logs["runs"].stat().st_size > 100_000, "lines")
    getattr(server, how)()
    sizes = {name: log.stat().st_size for name, log in logs.items()}
    engine.api.call("POST", f"/containers/{ends}/wait")
    server.start()
    assert pod.ended(ends).exit_code == 0
    assert counted([logs["ends"]]) == list(range(1, 40001))
    until(lambda: logs["runs"].stat().st_size > sizes["runs"] + 100_000, "more lines")
    server.client.StopContainer(pb.StopContainerRequest(container_id=runs), timeout=CALL)
    numbers = counted([logs["runs"]])
    assert numbers == list(range(1, len(numbers) + 1))
    server.remove_all()
    assert server.stop() == 0


def test_a_spool_that_wrapped_while_the_server_was_down_is_told(
    new_server: Callable[..., CrishimServer], engine: TestEngine
) -> None:
    server = new_server(flags=["--log-spool-size=1MiB", "--log-spool-files=2"])
    server.start()
    pod = Pod(server)
    script = "trap 'seq 1 100000; exit' USR1; echo first; while :; do sleep 0.05; done"
    container = pod.start(make_container(command=["sh", "-c", script]))
    log = Path(container_status(server, container).log_path)
    until(lambda: "first" in log.read_text(), "the first line")
    server.stop()
    engine.api.call("POST", f"/containers/{container}/kill", {"signal": "USR1"})
    engine.api.call("POST", f"/containers/{container}/wait")
    server.start()
    pod.ended(container)
    lines = read_log(log).splitlines()
    assert lines[0] == "first"
    assert 1 < int(lines[1]) < int(lines[-1]) == 100000
    status = server.client.Status(pb.StatusRequest(verbose=True), timeout=CALL)
    assert json.loads(status.info["logs"])["lost_bytes"] > 500_000
    assert "lines are missing" in server.log.read_text()
    server.remove_all()
    assert server.stop() == 0


def kept_by_engine(engine: TestEngine, container: str) -> str:
    """What the engine's own files have of a container's output."""
    newest = Path(engine.api.call("GET", f"/containers/{container}/json")["LogPath"])
    files = sorted(newest.parent.glob(f"{newest.name}*"), key=lambda file: -int(file.suffix[1:].replace("log", "0")))
    return "".join(json.loads(line)["log"] for file in files for line in file.read_bytes().splitlines())


def test_an_engine_that_takes_its_containers_with_it(
    new_server: Callable[..., CrishimServer], new_engine: Callable[..., TestEngine]
) -> None:
    """Without live-restore a restart ends what runs: all it had said until then is in its log."""
    engine = new_engine(config={"live-restore": False})
    busybox().load(engine.api, BUSYBOX_REF)
    server = new_server(engine.url)
    server.start()
    pod = Pod(server)
    container = pod.start(make_container(command=["sh", "-c", CALMLY]))
    log = Path(container_status(server, container).log_path)
    until(lambda: log.stat().st_size > 100_000, "some lines")
    engine.restart()
    server.wait_ready()
    pod.ended(container)
    kept = kept_by_engine(engine, container)
    assert_complete(server, [log], kept)
    assert [int(number) for number in kept.splitlines()] == list(range(1, kept.count("\n") + 1))
    pod.remove()
    assert server.stop() == 0


def test_any_order_of_rotations_kills_and_engine_restarts(
    new_server: Callable[..., CrishimServer], new_engine: Callable[..., TestEngine], scaled: Callable[[int], int]
) -> None:
    """Random writers, with everything that reads their output ended at random; what they printed is in their logs."""
    engine = new_engine(config={"live-restore": True})
    busybox().load(engine.api, BUSYBOX_REF)
    server = new_server(engine.url, flags=["--log-spool-size=1MiB", "--log-spool-files=20"])
    server.start()
    for seed in range(scaled(50)):
        print(f"seed {seed}")  # shown with a failure
        rng = random.Random(seed)
        pod = Pod(server)
        lines = rng.choice((1, 2000, 60_000))
        tty = rng.random() < 0.3
        script = (
            f"i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo $i; [ $((i % 7)) = 0 ] && echo $i >&2;"
            " [ $((i % 5000)) = 0 ] && sleep 0.2; done; printf end"
        )
        config = make_container("writer", attempt=seed, command=["sh", "-c", script], tty=tty)
        container = pod.start(config)
        log = Path(container_status(server, container).log_path)
        parts: list[Path] = []
        restarted = False
        for _ in range(rng.randrange(1, 6)):
            what = rng.choice(("rotate", "rotate", "kill server", "kill writer", "stop server", "restart engine"))
            if what == "rotate":
                if log.exists():
                    parts.append(log.rename(log.with_name(f"{log.name}.{len(parts):06}")))
                    if refused(server, container) is not None:
                        parts.pop().rename(log)
            elif what == "kill writer":
                if server.log_writer:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(server.log_writer, signal.SIGKILL)
            elif what == "restart engine":
                engine.restart()
                server.wait_ready()
                restarted = True
            else:
                (server.kill9 if what == "kill server" else server.stop)()
                server.start()
        pod.ended(container)
        kept = kept_by_engine(engine, container)
        assert_complete(server, [*parts, log], kept)
        said = kept.replace("\r\n", "\n")
        # What a container prints while it ends and the engine restarts is lost by the engine itself.
        assert restarted or said.endswith("end"), f"seed {seed}"
        numbers = [int(line) for line in said.removesuffix("end").splitlines()]
        wanted = sorted([*range(1, lines + 1), *range(7, lines + 1, 7)])
        assert sorted(numbers) == wanted, f"seed {seed}"
        pod.remove()
    assert server.stop() == 0
