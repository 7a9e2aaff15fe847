"""Container logs in the kubelet's format, from a real engine's spool: complete, in order, none twice."""

from __future__ import annotations

import os
import re
from pathlib import Path

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.integration.server.pods import EXITED, Pod, container_status, make_container, make_pod, read_log
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


def test_an_exit_is_told_when_the_log_is_complete(server: CrishimServer) -> None:
    pod = Pod(server)
    for number in range(10):
        container = pod.start(make_container("short", attempt=number, command=["echo", f"life {number}"]))
        assert read_log(Path(pod.ended(container).log_path)) == f"life {number}\n"
    container = pod.start(make_container("long", command=["sh", "-c", "seq 1 200000"]))
    said = read_log(Path(pod.ended(container).log_path))
    assert said == "".join(f"{n}\n" for n in range(1, 200001))


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
    assert len(parts) > 2
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
