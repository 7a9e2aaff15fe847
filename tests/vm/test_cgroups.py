"""Cgroup version 2 with the systemd driver: limits as the kernel has them, and where in the tree pods live."""

from __future__ import annotations

import math

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.vm.guest import wait_for
from tests.vm.image import HOME
from tests.vm.node import Node

MIB = 1 << 20
SLICE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234.slice"


def cgroup_of(node: Node, container_id: str) -> str:
    """The path of a container's cgroup, from the root of the tree."""
    line = node.guest.read(f"/proc/{node.pid(container_id)}/cgroup")
    assert line.startswith("0::"), line
    return line.removeprefix("0::")


def limits(node: Node, cgroup: str, *names: str) -> dict[str, str]:
    """The cgroup's files by name."""
    texts = node.guest.run(f"cd /sys/fs/cgroup{cgroup} && cat {' '.join(names)}").splitlines()
    return dict(zip(names, texts, strict=True))


def weights(shares: int) -> set[str]:
    """What a runtime may make of CPU shares: the OCI's linear rule, and its successor of 2025."""
    linear = 1 + (shares - 2) * 9999 // 262142
    exponent = math.log2(shares)
    return {str(linear), str(math.ceil(10 ** ((exponent**2 + 125 * exponent) / 612 - 7 / 34)))}


def test_the_node_tells_its_driver(node: Node) -> None:
    assert node.call("RuntimeConfig").linux.cgroup_driver == pb.CgroupDriver.SYSTEMD
    engine = node.info()["engine"]
    assert (engine["cgroupVersion"], engine["cgroupDriver"]) == (2, "systemd")


def test_limits_are_in_force_from_the_start_and_after_an_update(node: Node) -> None:
    asked = pb.LinuxContainerResources(
        cpu_period=100_000, cpu_quota=50_000, cpu_shares=512, memory_limit_in_bytes=64 * MIB, cpuset_cpus="0"
    )
    files = ("cpu.max", "memory.max", "memory.swap.max", "cpuset.cpus", "cpu.weight")
    with node.pod() as pod:
        container = pod.start(resources=asked)
        cgroup = cgroup_of(node, container)
        found = limits(node, cgroup, *files)
        assert found.pop("cpu.weight") in weights(512)
        assert found == {
            "cpu.max": "50000 100000",
            "memory.max": str(64 * MIB),
            "memory.swap.max": "0",
            "cpuset.cpus": "0",
        }
        told = node.call("ContainerStatus", container_id=container).status.resources.linux
        assert (told.cpu_period, told.cpu_quota, told.cpu_shares) == (100_000, 50_000, 512)
        assert told.memory_limit_in_bytes == 64 * MIB

        more = pb.LinuxContainerResources(
            cpu_period=200_000, cpu_quota=30_000, cpu_shares=2048, memory_limit_in_bytes=96 * MIB, cpuset_cpus="0-1"
        )
        node.call("UpdateContainerResources", container_id=container, linux=more)
        found = limits(node, cgroup, *files)
        assert found.pop("cpu.weight") in weights(2048)
        assert found == {
            "cpu.max": "30000 200000",
            "memory.max": str(96 * MIB),
            "memory.swap.max": "0",
            "cpuset.cpus": "0-1",
        }
        told = node.call("ContainerStatus", container_id=container).status.resources.linux
        assert (told.cpu_period, told.cpu_quota, told.cpu_shares) == (200_000, 30_000, 2048)
        assert told.memory_limit_in_bytes == 96 * MIB


def test_swap_beyond_the_memory_limit(node: Node) -> None:
    asked = pb.LinuxContainerResources(memory_limit_in_bytes=64 * MIB, memory_swap_limit_in_bytes=80 * MIB)
    with node.pod() as pod:
        cgroup = cgroup_of(node, pod.start(resources=asked))
        # CRI's swap limit includes memory, version 2's does not
        assert limits(node, cgroup, "memory.max", "memory.swap.max") == {
            "memory.max": str(64 * MIB),
            "memory.swap.max": str(16 * MIB),
        }


def test_without_limits_there_are_none(node: Node) -> None:
    with node.pod() as pod:
        cgroup = cgroup_of(node, pod.start())
        found = limits(node, cgroup, "cpu.max", "memory.max", "pids.max")
        # systemd's own limit for a scope would be 15 % of what the machine can have
        assert int(found.pop("pids.max").replace("max", str(1 << 22))) >= 1 << 22
        assert found == {"cpu.max": "max 100000", "memory.max": "max"}


def test_a_pods_slice(node: Node) -> None:
    with node.pod(linux=pb.LinuxPodSandboxConfig(cgroup_parent=SLICE)) as pod:
        container = pod.start()
        for made in (pod.id, container):
            assert cgroup_of(node, made) == f"{SLICE}/docker-{made}.scope"
        # systemd knows it, too: what it does not know it would take away
        unit = node.guest.run(f"systemctl show docker-{container}.scope --property=Slice --value").strip()
        assert unit == SLICE.rpartition("/")[2]


def test_a_parent_that_is_no_slice_is_refused_by_name(node: Node) -> None:
    with (
        pytest.raises(grpc.RpcError, match="does not end in a slice"),
        node.pod(linux=pb.LinuxPodSandboxConfig(cgroup_parent="/kubepods/pod1234")),
    ):
        pass


def test_memory_exhausted_is_told(node: Node) -> None:
    asked = pb.LinuxContainerResources(memory_limit_in_bytes=16 * MIB)
    with node.pod() as pod:
        container = pod.start("exec tail /dev/zero", resources=asked)
        wait_for(lambda: node.state(container), lambda state: state == "CONTAINER_EXITED")
        status = node.call("ContainerStatus", container_id=container).status
        assert (status.reason, status.exit_code) == ("OOMKilled", 137)


_NOTICE = """
import asyncio, contextlib, pathlib, sys
from crishim.stats.oom import Notices
events, go = map(pathlib.Path, sys.argv[1:])
async def main():
    starved, notices = asyncio.Event(), Notices()
    def look():
        with contextlib.suppress(OSError):
            if "oom_kill 1" in events.read_text():
                starved.set()
    notices.add(str(events), look)
    go.touch()
    await asyncio.wait_for(starved.wait(), 100)
    print("noticed")
asyncio.run(main())
"""


def test_the_kernel_tells_when_memory_runs_out_before_the_cgroup_is_gone(node: Node) -> None:
    """What crishim counts on when the engine comes too late to see why a container's only process was killed."""
    asked = pb.LinuxContainerResources(memory_limit_in_bytes=16 * MIB)
    node.guest.write("/tmp/notice.py", _NOTICE)
    with node.pod() as pod:
        container = pod.start("until [ -e /go ]; do sleep 0.2; done; exec tail /dev/zero", resources=asked)
        events = f"/sys/fs/cgroup{cgroup_of(node, container)}/memory.events"
        go = f"/proc/{node.pid(container)}/root/go"
        assert node.guest.run(f"{HOME}/bin/python /tmp/notice.py {events} {go}").strip() == "noticed"
        wait_for(lambda: node.state(container), lambda state: state == "CONTAINER_EXITED")
        status = node.call("ContainerStatus", container_id=container).status
        assert (status.reason, status.exit_code) == ("OOMKilled", 137)


def test_containers_see_a_cgroup_tree_of_their_own_unless_privileged(node: Node) -> None:
    hosts = node.guest.run("readlink /proc/1/ns/cgroup")
    security = pb.LinuxSandboxSecurityContext(privileged=True)
    with node.pod(linux=pb.LinuxPodSandboxConfig(security_context=security)) as pod:
        plain = pod.start()
        privileged = pod.start(security_context=pb.LinuxContainerSecurityContext(privileged=True))
        assert node.guest.run(f"readlink /proc/{node.pid(plain)}/ns/cgroup") != hosts
        assert node.guest.run(f"readlink /proc/{node.pid(privileged)}/ns/cgroup") == hosts
