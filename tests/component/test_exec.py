"""ExecSync, Exec, Attach and PortForward on the wire of a server with the simulated engine."""

from __future__ import annotations

import re

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.component.conftest import LIMIT, World

Code = grpc.StatusCode
URL = r"http://127\.0\.0\.1:\d+/{verb}/[A-Za-z0-9_-]{{22,}}"
"""Absolute, a host that can be dialled, and 128 bits at least."""


@pytest.fixture
def container(world: World) -> str:
    container = world.create(world.run_pod(), stdin=True)
    world.start(container)
    return container


def test_exec_sync(world: World, container: str) -> None:
    def run(*command: str) -> pb.ExecSyncResponse:
        request = pb.ExecSyncRequest(container_id=container, cmd=command, timeout=20)
        answer: pb.ExecSyncResponse = world.client.ExecSync(request, timeout=LIMIT)
        return answer

    assert run("echo", "hello") == pb.ExecSyncResponse(stdout=b"hello\n")
    assert run("sh", "-c", "exit 200") == pb.ExecSyncResponse(exit_code=200)
    assert run("true") == pb.ExecSyncResponse()


def test_exec_sync_that_fails(world: World, container: str) -> None:
    def failure(**fields: object) -> tuple[grpc.StatusCode, str]:
        request = pb.ExecSyncRequest(**({"container_id": container, "cmd": ["true"]} | fields))  # type: ignore[arg-type]
        return world.failure("ExecSync", request)

    assert failure(cmd=["sleep", "100"], timeout=1)[0] is Code.DEADLINE_EXCEEDED
    assert failure(cmd=["/missing"]) == (
        Code.FAILED_PRECONDITION,
        'exec failed: unable to start container process: exec: "/missing": no such file or directory',
    )
    assert failure(cmd=[])[0] is Code.INVALID_ARGUMENT
    assert failure(timeout=-1)[0] is Code.INVALID_ARGUMENT
    assert failure(container_id="")[0] is Code.NOT_FOUND
    assert failure(container_id="nobody")[0] is Code.NOT_FOUND
    created = world.create(world.run_pod("other"), "created")
    assert failure(container_id=created)[0] is Code.FAILED_PRECONDITION


def test_urls(world: World, container: str) -> None:
    pod = world.sandboxes()[0]
    client = world.client
    urls = {
        "exec": client.Exec(pb.ExecRequest(container_id=container, cmd=["true"], stdout=True), timeout=LIMIT).url,
        "attach": client.Attach(pb.AttachRequest(container_id=container, stdin=True), timeout=LIMIT).url,
        "portforward": client.PortForward(pb.PortForwardRequest(pod_sandbox_id=pod), timeout=LIMIT).url,
    }
    for verb, url in urls.items():
        assert re.fullmatch(URL.format(verb=verb), url), url
    assert len(set(urls.values())) == 3


def test_refused_before_there_is_a_url(world: World, container: str) -> None:
    for rpc, request, expected in (
        ("Exec", pb.ExecRequest(container_id=container, cmd=["true"]), Code.INVALID_ARGUMENT),
        ("Exec", pb.ExecRequest(container_id=container, stdout=True), Code.INVALID_ARGUMENT),
        ("Exec", pb.ExecRequest(container_id="nobody", cmd=["true"], stdout=True), Code.NOT_FOUND),
        ("Attach", pb.AttachRequest(container_id=container), Code.INVALID_ARGUMENT),
        ("Attach", pb.AttachRequest(container_id=container, stdout=True, tty=True), Code.INVALID_ARGUMENT),
        ("Attach", pb.AttachRequest(container_id="", stdout=True), Code.NOT_FOUND),
        ("PortForward", pb.PortForwardRequest(pod_sandbox_id="nobody"), Code.NOT_FOUND),
        ("PortForward", pb.PortForwardRequest(pod_sandbox_id=world.sandboxes()[0], port=[0]), Code.INVALID_ARGUMENT),
    ):
        assert world.failure(rpc, request)[0] is expected, request
