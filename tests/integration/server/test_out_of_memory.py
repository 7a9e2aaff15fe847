"""Containers that run out of memory on the real engine, which can miss why they ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.integration.server.pods import (
    EXITED,
    READY,
    RUNNING,
    Pod,
    linux,
    make_container,
)
from tests.integration.server.serving import CALL, CrishimServer

pytestmark = pytest.mark.engine


def streamed(server: CrishimServer) -> list[tuple[str, int]]:
    """Id and state of each item of the streamed lists. Without statistics, whose sampler would go on for a while."""
    lists = (("StreamPodSandboxes", "pod_sandboxes"), ("StreamContainers", "containers"))
    return [
        (item.id, item.state)
        for rpc, field in lists
        for message in getattr(server.client, rpc)(b"", timeout=CALL)
        for item in getattr(message, field)
    ]


def test_out_of_memory(server: CrishimServer) -> None:
    """While lists are streamed all the time, which tell each object once, and none fails."""
    limit = pb.LinuxContainerResources(memory_limit_in_bytes=16 << 20, memory_swap_limit_in_bytes=16 << 20)
    pod = Pod(server)
    # The first process outlives the one that is killed: when both end at once, a busy engine can miss the reason.
    command = ["sh", "-c", "tail /dev/zero; sleep 1; exit 137"]
    container_id = pod.start(make_container(command=command, linux=linux(resources=limit)))
    stays = pod.start(make_container("stays"))
    lasting = [(pod.id, READY), (stays, RUNNING)]
    while (container_id, RUNNING) in (told := streamed(server)):
        assert sorted(told) == sorted([*lasting, (container_id, RUNNING)])
    assert sorted(told) == sorted([*lasting, (container_id, EXITED)])
    assert (pod.ended(container_id).reason, pod.ended(container_id).exit_code) == ("OOMKilled", 137)


@pytest.mark.skipif(not Path("/sys/fs/cgroup/memory").is_dir(), reason="the kernel's word outlives a cgroup of v1 only")
def test_out_of_memory_with_its_only_process(server: CrishimServer) -> None:
    """A fifth of these a busy engine tells of as killed by somebody; the kernel knows better."""
    limit = pb.LinuxContainerResources(memory_limit_in_bytes=16 << 20, memory_swap_limit_in_bytes=16 << 20)
    pod = Pod(server)
    command = ["sh", "-c", "sleep 1; exec tail /dev/zero"]
    starving = make_container(command=command, linux=linux(resources=limit))
    containers = []
    for attempt in range(3):
        starving.metadata.attempt = attempt
        containers.append(pod.start(starving))
    assert [(pod.ended(c).reason, pod.ended(c).exit_code) for c in containers] == [("OOMKilled", 137)] * 3
