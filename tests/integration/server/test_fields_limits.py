"""Limits, profiles and namespaces in the combinations that single fields do not show, read back from the kernel."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.env import linux as kernel
from tests.env.engine import TestEngine
from tests.integration.server.inside import cgroup_file
from tests.integration.server.pods import (
    Pod,
    container_status,
    linux,
    listed_states,
    make_container,
    make_pod,
    pid_of,
    pod_linux,
)
from tests.integration.server.serving import CALL, CrishimServer, code, text

pytestmark = pytest.mark.engine
MIB = 1 << 20
SWAP_FILE = "memory.memsw.limit_in_bytes"


def resources(**limits: Any) -> pb.LinuxContainerConfig:
    return linux(resources=pb.LinuxContainerResources(**limits))


def update(server: CrishimServer, container_id: str, **limits: Any) -> str:
    """UpdateContainerResources; the code's name and the text of its failure, empty for none."""
    asked = pb.LinuxContainerResources(**limits)
    request = pb.UpdateContainerResourcesRequest(container_id=container_id, linux=asked)
    try:
        server.client.UpdateContainerResources(request, timeout=CALL)
    except grpc.RpcError as error:
        return f"{code(error).name} {text(error)}"
    return ""


@pytest.mark.skipif(
    not Path("/sys/fs/cgroup/memory", SWAP_FILE).exists(), reason="no swap accounting of version 1: tests/vm has 2"
)
def test_swap(server: CrishimServer, engine: TestEngine) -> None:
    """None beyond the memory limit unless asked; each limit raised, lowered and left, alone and together."""
    pod = Pod(server)
    none = 1 << 60
    """Above it there is no limit."""

    def in_force(container_id: str) -> tuple[int, int]:
        found = [cgroup_file(engine.api, container_id, "memory", name) for name in ("memory.limit_in_bytes", SWAP_FILE)]
        memory, swap = (min(int(value), none) // MIB for value in found)
        return memory, swap

    def start(name: str, **limits: Any) -> str:
        return pod.start(make_container(name, linux=resources(**limits)))

    no_limit = none // MIB
    container_id = start("unset", memory_limit_in_bytes=64 * MIB)
    some = start("some", memory_limit_in_bytes=64 * MIB, memory_swap_limit_in_bytes=80 * MIB)
    any_ = start("any", memory_limit_in_bytes=64 * MIB, memory_swap_limit_in_bytes=-1)
    assert [in_force(each) for each in (container_id, some, any_)] == [(64, 64), (64, 80), (64, no_limit)]
    steps: tuple[tuple[dict[str, int], tuple[int, int]], ...] = (
        ({"memory": 128}, (128, 128)),
        ({"swap": 256}, (128, 256)),
        ({"memory": 200}, (200, 256)),
        ({"memory": 64}, (64, 256)),
        ({"swap": 64}, (64, 64)),
        ({"memory": 96, "swap": 192}, (96, 192)),
        ({"swap": -1}, (96, no_limit)),
        ({"memory": 128}, (128, no_limit)),
        ({"memory": 32, "swap": 32}, (32, 32)),
    )
    names = {"memory": "memory_limit_in_bytes", "swap": "memory_swap_limit_in_bytes"}
    for limits, expected in steps:
        asked = {names[name]: value if value < 0 else value * MIB for name, value in limits.items()}
        assert (update(server, container_id, **asked), in_force(container_id)) == ("", expected), limits
        told = container_status(server, container_id).resources.linux
        limit = 0 if expected[1] == no_limit else expected[1] * MIB
        assert (told.memory_limit_in_bytes, told.memory_swap_limit_in_bytes) == (expected[0] * MIB, limit), limits
    refused = update(server, container_id, memory_swap_limit_in_bytes=31 * MIB)
    assert refused.startswith("INVALID_ARGUMENT linux.memory_swap_limit_in_bytes: ")
    assert in_force(container_id) == (32, 32)


def test_numbers_out_of_range(server: CrishimServer, engine: TestEngine) -> None:
    """What the kernel or engine would not take is refused before anything is made, in a request and in an update."""
    pod = Pod(server)
    container_id = pod.start(make_container(linux=resources(cpu_shares=300)))
    before = listed_states(server)
    bad = (("cpu_shares", 1), ("cpu_shares", 262_145), ("cpu_period", 999), ("cpu_quota", 1), ("cpuset_cpus", "4000"))
    for name, value in (*bad, ("memory_limit_in_bytes", 4096), ("cpuset_mems", "63")):
        with pytest.raises(grpc.RpcError) as caught:
            pod.create(make_container("bad", linux=resources(**{name: value})))
        assert code(caught.value) is grpc.StatusCode.INVALID_ARGUMENT, (name, text(caught.value))
        found = update(server, container_id, **{name: value})
        assert found.startswith("INVALID_ARGUMENT"), (name, found)
        if name.startswith("cpu_"):
            assert text(caught.value).startswith(f"config.linux.resources.{name}: ")
            assert f" linux.{name}: " in found
    assert listed_states(server) == before
    assert cgroup_file(engine.api, container_id, "cpu", "cpu.shares", "cpu.weight") in ("300", "12")
    low = pod.start(make_container("low", linux=resources(oom_score_adj=-999)))
    score = int(Path(f"/proc/{pid_of(engine.api, low)}/oom_score_adj").read_text())
    floor = int(Path("/proc/self/oom_score_adj").read_text())
    assert score == (-999 if kernel.has_capability(kernel.CAP_SYS_RESOURCE) else floor)
    assert container_status(server, low).resources.linux.oom_score_adj == score


def test_profiles_of_every_shape(server: CrishimServer, tmp_path: Path) -> None:
    """Each form that a seccomp profile may have is in force as it stands, and never replaced by the engine's."""
    deny: dict[str, Any] = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}
    allow: dict[str, Any] = {"defaultAction": "SCMP_ACT_ALLOW"}
    one_by_one = [{"name": name, "action": "SCMP_ACT_ERRNO", "args": None} for name in deny["names"]]
    matching = {**deny, "comment": "c", "includes": {"caps": ["CAP_KILL"]}, "excludes": {"caps": ["CAP_SYS_ADMIN"]}}
    not_matching = {**deny, "includes": {"caps": ["CAP_SYS_ADMIN"]}}
    native = {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}
    shapes: dict[str, tuple[dict[str, Any], str]] = {
        "no rules": (allow, "made"),
        "null": (allow | {"syscalls": None}, "made"),
        "empty": (allow | {"syscalls": []}, "made"),
        "single names": (allow | {"syscalls": one_by_one}, "not permitted"),
        "conditions": (allow | {"syscalls": [matching], "archMap": [native]}, "not permitted"),
        "condition that fails": (allow | {"syscalls": [not_matching]}, "made"),
        "architectures": (allow | {"syscalls": [deny], "architectures": ["SCMP_ARCH_X86_64"]}, "not permitted"),
        "error of its own": (allow | {"syscalls": [{**deny, "errnoRet": 38}]}, "not implemented"),
        "end": (allow | {"syscalls": [{**deny, "action": "SCMP_ACT_KILL_PROCESS"}]}, "Bad system call"),
    }
    pod = Pod(server)
    wrong = {}
    for name, (profile, expected) in shapes.items():
        path = tmp_path / name
        path.write_text(json.dumps(profile))
        asked = pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref=str(path))
        # The engine's own profile does not let one unshare.
        script = "grep Seccomp: /proc/self/status; unshare -U true && (mkdir /tmp/a && echo made); true"
        said = pod.say(f"({script}) 2>&1", linux=linux(seccomp=asked))
        if not (said.startswith("Seccomp:\t2\n") and expected.lower() in said.lower()):
            wrong[name] = said
    assert wrong == {}


def test_namespaces_combined(server: CrishimServer, engine: TestEngine) -> None:
    """The pod's network, its IPC and each container's PID namespace are chosen one by one."""
    wrong = []
    ours = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "ipc", "pid", "uts")}
    for network, ipc in ((pb.NODE, pb.POD), (pb.POD, pb.NODE), (pb.NODE, pb.NODE)):
        modes = pb.NamespaceOption(network=network, ipc=ipc, pid=pb.CONTAINER)
        hostname = "" if network == pb.NODE else "mine"
        pod = Pod(server, make_pod(server, linux=pod_linux(namespace_options=modes), hostname=hostname))
        sandbox = _namespaces(engine, pod.id)
        for pid in (pb.POD, pb.CONTAINER, pb.NODE):
            options = pb.NamespaceOption(network=network, ipc=ipc, pid=pid)
            found = _namespaces(engine, pod.start(make_container(f"c{pid}", linux=linux(namespace_options=options))))
            expected = {
                "net": ours["net"] if network == pb.NODE else sandbox["net"],
                "ipc": ours["ipc"] if ipc == pb.NODE else sandbox["ipc"],
                "pid": {pb.POD: sandbox["pid"], pb.NODE: ours["pid"]}.get(pid, found["pid"]),
            }
            own_pid = pid != pb.CONTAINER or found["pid"] not in (sandbox["pid"], ours["pid"])
            own_uts = (found["uts"] == ours["uts"]) is (network == pb.NODE)
            if not (found.items() >= expected.items() and own_pid and own_uts):
                wrong.append((network, ipc, pid, found, sandbox))
        told = pod.status().linux.namespaces.options
        assert (told.network, told.ipc, told.pid) == (network, ipc, pb.CONTAINER)
        assert (sandbox["net"] == ours["net"]) is (network == pb.NODE)
        assert (sandbox["ipc"] == ours["ipc"]) is (ipc == pb.NODE)
        assert sandbox["pid"] != ours["pid"]
    assert wrong == []


def _namespaces(engine: TestEngine, container_id: str) -> dict[str, str]:
    pid = pid_of(engine.api, container_id)
    return {kind: os.readlink(f"/proc/{pid}/ns/{kind}") for kind in ("net", "ipc", "pid", "uts")}
