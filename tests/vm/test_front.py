"""The runtime's front under systemd and cgroup version 2: limits that only it can carry."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.vm.image import HOME
from tests.vm.node import Node
from tests.vm.test_cgroups import MIB, cgroup_of, limits

_LIMIT = 300.0
"""Seconds for a command that has the engine start something, emulated."""


@pytest.fixture
def fronted(node: Node) -> Iterator[Node]:
    """The node with the front, inside the test."""
    node.guest.run(f"{HOME}/bin/crishim install-runtime --yes", limit=_LIMIT)
    yield node
    node.guest.run(f"{HOME}/bin/crishim uninstall-runtime --yes", limit=_LIMIT)


def test_files_of_the_cgroup(fronted: Node) -> None:
    """In force from the start, changed by an update, and still there after one of something else."""
    node = fronted
    names = ("memory.high", "memory.low")
    asked = pb.LinuxContainerResources(unified={"memory.high": str(64 * MIB), "memory.low": str(4 * MIB)})
    with node.pod() as pod:
        container = pod.start(resources=asked)
        cgroup = cgroup_of(node, container)
        assert limits(node, cgroup, *names) == {"memory.high": str(64 * MIB), "memory.low": str(4 * MIB)}
        changed = pb.LinuxContainerResources(unified={"memory.high": str(96 * MIB)})
        for more in (changed, pb.LinuxContainerResources(cpu_shares=512)):
            node.call("UpdateContainerResources", container_id=container, linux=more)
            assert limits(node, cgroup, *names) == {"memory.high": str(96 * MIB), "memory.low": str(4 * MIB)}
        told = node.call("ContainerStatus", container_id=container).status.resources.linux
        assert dict(told.unified) == {"memory.high": str(96 * MIB), "memory.low": str(4 * MIB)}
        for key, words in (("memory.none", "memory.none"), ("cgroup.kill", "not a file of a cgroup")):
            bad = pb.LinuxContainerResources(unified={key: "1"})
            with pytest.raises(grpc.RpcError, match=words):
                node.call("UpdateContainerResources", container_id=container, linux=bad)


def test_huge_pages(fronted: Node) -> None:
    node = fronted
    few, more = (pb.HugepageLimit(page_size="2MB", limit=number * 2 * MIB) for number in (1, 3))
    with node.pod() as pod:
        container = pod.start(resources=pb.LinuxContainerResources(hugepage_limits=[few]))
        cgroup = cgroup_of(node, container)
        assert limits(node, cgroup, "hugetlb.2MB.max") == {"hugetlb.2MB.max": str(few.limit)}
        update = pb.LinuxContainerResources(hugepage_limits=[more])
        node.call("UpdateContainerResources", container_id=container, linux=update)
        assert limits(node, cgroup, "hugetlb.2MB.max") == {"hugetlb.2MB.max": str(more.limit)}
        told = node.call("ContainerStatus", container_id=container).status.resources.linux
        assert [(limit.page_size, limit.limit) for limit in told.hugepage_limits] == [("2MB", more.limit)]
