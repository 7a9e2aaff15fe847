"""What processes may do on a machine whose root lacks nothing: OOM scores, privileged containers, sysctls."""

from __future__ import annotations

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.vm.node import Node

PRIVILEGED_POD = pb.LinuxPodSandboxConfig(security_context=pb.LinuxSandboxSecurityContext(privileged=True))


def process(node: Node, container_id: str) -> dict[str, str]:
    """The lines of a container's /proc/PID/status."""
    lines = node.guest.read(f"/proc/{node.pid(container_id)}/status").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def test_nothing_is_withheld(node: Node) -> None:
    assert node.info()["host"] == {"oomScoreAdjFloor": -1000, "remarks": []}


def test_oom_scores_are_as_asked(node: Node) -> None:
    with node.pod() as pod:
        assert node.guest.read(f"/proc/{node.pid(pod.id)}/oom_score_adj") == "-998"
        for score in (-1000, -997, 0, 1000):
            container = pod.start(resources=pb.LinuxContainerResources(oom_score_adj=score))
            assert node.guest.read(f"/proc/{node.pid(container)}/oom_score_adj") == str(score)


def test_privileged(node: Node) -> None:
    with node.pod(linux=PRIVILEGED_POD) as pod:
        container = pod.start(
            "mkdir /here && mount -t tmpfs none /here && exec sleep 100000",
            security_context=pb.LinuxContainerSecurityContext(privileged=True),
        )
        status = process(node, container)
        roots = int(node.guest.run("grep CapBnd /proc/1/status").split()[1], 16)
        # Docker 20.10 does not know the three newest
        assert int(status["CapEff"], 16) in (roots, roots & (1 << 38) - 1)
        assert status["CapBnd"] == status["CapEff"]
        assert (status["Seccomp"], status["NoNewPrivs"]) == ("0", "0")
        inside = f"/proc/{node.pid(container)}"
        assert node.guest.read(f"{inside}/attr/current") == "unconfined"
        assert node.guest.run(f"stat --format=%F {inside}/root/dev/vda").strip() == "block special file"
        mounts = [line.split() for line in node.guest.read(f"{inside}/mounts").splitlines()]
        assert ["none", "/here", "tmpfs"] in [mount[:3] for mount in mounts]
        for place in ("/proc", "/sys", "/sys/fs/cgroup"):
            assert [mount[3].partition(",")[0] for mount in mounts if mount[1] == place] == ["rw"], (place, mounts)


def test_not_privileged(node: Node) -> None:
    profile = pb.SecurityProfile(profile_type=pb.SecurityProfile.RuntimeDefault)
    with node.pod(linux=PRIVILEGED_POD) as pod:
        container = pod.start(
            "mount -t tmpfs none /tmp; exec sleep 100000",
            security_context=pb.LinuxContainerSecurityContext(seccomp=profile, no_new_privs=True),
        )
        status = process(node, container)
        assert (status["CapEff"], status["Seccomp"], status["NoNewPrivs"]) == ("00000000a80425fb", "2", "1")
        inside = f"/proc/{node.pid(container)}"
        assert node.guest.run(f"ls {inside}/root/dev | grep -c vda || true").strip() == "0"
        mounts = [line.split() for line in node.guest.read(f"{inside}/mounts").splitlines()]
        assert "/tmp" not in {mount[1] for mount in mounts}
        assert next(mount for mount in mounts if mount[1] == "/sys")[3].startswith("ro")


def test_sysctls(node: Node) -> None:
    asked = {
        "net.ipv4.ip_local_port_range": "20000\t20999",
        "net.ipv4.ip_unprivileged_port_start": "80",
        "kernel.msgmax": "16384",
        "kernel.shm_rmid_forced": "1",
        "fs.mqueue.msg_max": "21",
    }
    read = " ".join("/proc/sys/" + name.replace(".", "/") for name in asked)
    before = node.guest.run(f"cat {read}")
    with node.pod(linux=pb.LinuxPodSandboxConfig(sysctls=asked)) as pod:
        pid = node.pid(pod.start())
        found = node.guest.run(f"nsenter --target={pid} --net --ipc cat {read}").splitlines()
        assert dict(zip(asked, found, strict=True)) == asked
        assert node.guest.run(f"cat {read}") == before


def test_a_sysctl_of_the_host_is_refused_by_name(node: Node) -> None:
    with (
        pytest.raises(grpc.RpcError, match=r"vm\.swappiness"),
        node.pod(linux=pb.LinuxPodSandboxConfig(sysctls={"vm.swappiness": "1"})),
    ):
        pass
