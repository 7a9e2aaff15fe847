"""Containers that another shim made, whose output the engine keeps with another log driver than json-file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.env.engine import TestEngine
from tests.env.images import BUSYBOX_REF
from tests.integration.server.pods import EXITED, RUNNING, container_status, read_log
from tests.integration.server.serving import CALL, CrishimServer, code
from tests.integration.server.waiting import until

pytestmark = pytest.mark.engine

POD = {"io.kubernetes.pod.name": "old", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "uid-old"}


def make_foreign(engine: TestEngine, log: Path, script: str, driver: str, *, tty: bool = False) -> str:
    """A pod with a running container as cri-dockerd labels them; the container's id."""

    def run(name: str, labels: dict[str, str], **more: Any) -> str:
        body = {"Image": BUSYBOX_REF, "Labels": labels | POD, **more}
        made: str = engine.api.call(
            "POST", "/containers/create", {"name": f"k8s_{name}_old_default_uid-old_0"}, json_body=body
        )["Id"]
        engine.api.call("POST", f"/containers/{made}/start")
        return made

    sandbox = run(
        "POD",
        {"io.kubernetes.docker.type": "podsandbox", "io.kubernetes.container.name": "POD"},
        Cmd=["sleep", "1000"],
        HostConfig={"NetworkMode": "none"},
    )
    labels = {
        "io.kubernetes.docker.type": "container",
        "io.kubernetes.container.name": "main",
        "io.kubernetes.sandbox.id": sandbox,
        "io.kubernetes.container.logpath": str(log),
    }
    host = {"NetworkMode": f"container:{sandbox}", "LogConfig": {"Type": driver, "Config": {}}}
    return run("main", labels, Cmd=["sh", "-c", script], Tty=tty, HostConfig=host)


@pytest.mark.parametrize("tty", [False, True])
def test_a_log_that_only_the_engine_can_read(
    new_server: Callable[..., CrishimServer], engine: TestEngine, tmp_path: Path, *, tty: bool
) -> None:
    """All of it is written, from before crishim was there to what was said while it was killed, and it is rotated."""
    log = tmp_path / "logs" / "main.log"
    script = (
        "head -c 40000 /dev/zero | tr '\\0' x; echo; echo to stderr >&2; i=0;"
        " while [ ! -e /tmp/end ]; do i=$((i+1)); echo $i; [ $((i % 50)) = 0 ] && sleep 0.02; done; printf 'no end'"
    )
    server = new_server()
    container = make_foreign(engine, log, script, "local", tty=tty)
    server.start()
    assert container_status(server, container).log_path == str(log)
    until(lambda: log.exists() and log.stat().st_size > 45_000, "lines from before")
    server.kill9()
    size = log.stat().st_size
    server.start()
    until(lambda: log.stat().st_size > size + 5_000, "lines since")
    old = log.rename(tmp_path / "logs" / "main.log.old")
    server.client.ReopenContainerLog(pb.ReopenContainerLogRequest(container_id=container), timeout=CALL)
    until(lambda: log.stat().st_size > 5_000, "lines in the new file")
    server.client.ExecSync(pb.ExecSyncRequest(container_id=container, cmd=["touch", "/tmp/end"]), timeout=CALL)
    until(lambda: container_status(server, container).state == EXITED, "its end")
    said = (read_log(old) + read_log(log)).replace("\r\n", "\n")
    said = said.replace("to stderr\n", "", 1)
    long, *numbers, end = said.split("\n")
    assert long == "x" * 40_000
    assert [int(number) for number in numbers] == list(range(1, len(numbers) + 1))
    assert len(numbers) > 1000
    assert end == "no end"
    streams = {line.split(b" ", 2)[1] for line in old.read_bytes().splitlines()}
    assert streams == ({b"stdout"} if tty else {b"stdout", b"stderr"})
    server.remove_all()
    assert [*(server.state / "logs").iterdir()] == []
    assert server.stop() == 0


def test_a_log_that_nobody_can_read(
    new_server: Callable[..., CrishimServer], engine: TestEngine, tmp_path: Path
) -> None:
    log = tmp_path / "logs" / "main.log"
    container = make_foreign(engine, log, "echo to nobody; sleep 1000", "none")
    server = new_server()
    server.start()
    assert container_status(server, container).state == RUNNING
    until(lambda: "has no log, its log driver being none" in server.log.read_text(), "the server tells")
    with pytest.raises(grpc.RpcError) as raised:
        server.client.ReopenContainerLog(pb.ReopenContainerLogRequest(container_id=container), timeout=CALL)
    assert code(raised.value) is grpc.StatusCode.FAILED_PRECONDITION
    server.client.StopContainer(pb.StopContainerRequest(container_id=container), timeout=CALL)
    assert container_status(server, container).state == EXITED
    assert not log.exists()
    server.remove_all()
    assert server.stop() == 0
