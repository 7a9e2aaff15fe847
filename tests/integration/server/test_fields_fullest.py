"""Everything at once, nothing at all, each update by itself, and what is refused: read back from the kernel."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.engine.features import FIRST_API, Feature
from crishim.runtime.spec.container import LONGEST_STRING
from tests.env import linux as kernel
from tests.env.engine import TestEngine
from tests.env.images import BUSYBOX_REF, busybox
from tests.integration.server.fronted import FRONTED
from tests.integration.server.fullest import MIB, check_fullest, check_plain, check_told
from tests.integration.server.inside import cgroup_file, limits, mounts_of, status_of
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
from tests.integration.server.residue import assert_nothing_left
from tests.integration.server.serving import CALL, CrishimServer, code, text
from tests.integration.server.waiting import until

pytestmark = pytest.mark.engine


def api_version(engine: TestEngine) -> tuple[int, int]:
    """The newest version of its API that the engine speaks."""
    major, minor = str(engine.api.call("GET", "/version")["ApiVersion"]).split(".")
    return int(major), int(minor)


def test_the_fullest_container(server: CrishimServer, engine: TestEngine, tmp_path: Path) -> None:
    pod = Pod(server)
    container_id, config = check_fullest(pod, engine.api, tmp_path / "asked")
    check_told(pod, container_id, config)
    said = server.client.ExecSync(
        pb.ExecSyncRequest(container_id=container_id, cmd=["mkdir", "/m/0/denied"], timeout=30), timeout=CALL
    )
    assert (said.exit_code, b"not permitted" in said.stderr) == (1, True), "the profile is in force"
    server.restart()
    check_told(pod, container_id, config)


def test_a_container_that_asks_for_nothing(server: CrishimServer, engine: TestEngine) -> None:
    check_plain(Pod(server), engine.api)


def test_the_fullest_pod(server: CrishimServer, engine: TestEngine, tmp_path: Path) -> None:
    """The sandbox's own process: user and groups by the strict policy, read-only, with a profile of the node."""
    profile = tmp_path / "p.json"
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW"}))
    context = pod_linux(
        run_as_user=pb.Int64Value(value=77),
        supplemental_groups=[79],
        supplemental_groups_policy=pb.Strict,
        readonly_rootfs=True,
        seccomp=pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref=str(profile)),
    )
    pod = Pod(server, make_pod(server, linux=context))
    status = status_of(engine.api, pod.id)
    assert (status["Uid"].split()[0], status["Gid"].split()[0], status["Seccomp"]) == ("77", "0", "2")
    assert set(status["Groups"].split()) - {"0"} == {"79"}
    assert "ro" in mounts_of(pid_of(engine.api, pod.id))["/"].options
    assert status_of(engine.api, pod.start())["Seccomp"] == "0", "only the sandbox's own process"
    deprecated = pod_linux(supplemental_groups_policy=pb.Strict, seccomp_profile_path=f"localhost/{profile}")
    strict = status_of(engine.api, Pod(server, make_pod(server, linux=deprecated)).id)
    assert (strict["Uid"].split()[0], strict["Seccomp"]) == ("65535", "2"), "the sandbox image's user, and the profile"
    plain = Pod(server)
    plain_status = status_of(engine.api, plain.id)
    assert (plain_status["Uid"].split()[0], plain_status["Seccomp"]) == ("65535", "0")


def test_pod_resources_are_remembered(server: CrishimServer) -> None:
    """They come back in the verbose status, those of the update beside those that were asked for at first."""
    asked = pod_linux()
    asked.overhead.CopyFrom(pb.LinuxContainerResources(memory_limit_in_bytes=2 * MIB))
    asked.resources.CopyFrom(pb.LinuxContainerResources(cpu_shares=77))
    pod = Pod(server, make_pod(server, linux=asked))

    def told() -> dict[str, Any]:
        request = pb.PodSandboxStatusRequest(pod_sandbox_id=pod.id, verbose=True)
        found: dict[str, Any] = json.loads(server.client.PodSandboxStatus(request, timeout=CALL).info["info"])
        return found

    config = told()["config"]["linux"]
    assert (config["overhead"]["memory_limit_in_bytes"], config["resources"]["cpu_shares"]) == (2 * MIB, 77)
    update = pb.UpdatePodSandboxResourcesRequest(
        pod_sandbox_id=pod.id,
        overhead=pb.LinuxContainerResources(memory_limit_in_bytes=3 * MIB),
        resources=pb.LinuxContainerResources(cpu_shares=78),
    )
    server.client.UpdatePodSandboxResources(update, timeout=CALL)
    found = told()
    assert (found["overhead"]["memory_limit_in_bytes"], found["resources"]["cpu_shares"]) == (3 * MIB, 78)


def test_updates_one_by_one(server: CrishimServer, engine: TestEngine) -> None:
    """Each field changes alone; what somebody else changed in the engine is told; what is refused changes nothing."""
    pod = Pod(server)
    container_id = pod.start(make_container(linux=linux(resources=pb.LinuxContainerResources(cpu_shares=300))))
    pid = pid_of(engine.api, container_id)
    files: dict[str, tuple[Any, Callable[[], str]]] = {
        "cpu_period": (50_000, lambda: read("cpu", "cpu.cfs_period_us")),
        "cpu_quota": (20_000, lambda: read("cpu", "cpu.cfs_quota_us")),
        "cpu_shares": (512, lambda: read("cpu", "cpu.shares")),
        "memory_limit_in_bytes": (64 * MIB, lambda: read("memory", "memory.limit_in_bytes")),
        "cpuset_cpus": ("0", lambda: read("cpuset", "cpuset.cpus")),
        "cpuset_mems": ("0", lambda: read("cpuset", "cpuset.mems")),
        "oom_score_adj": (700, lambda: Path(f"/proc/{pid}/oom_score_adj").read_text().strip()),
    }

    def read(controller: str, *names: str) -> str:
        return cgroup_file(engine.api, container_id, controller, *names)

    def update(**changes: Any) -> grpc.StatusCode:
        request = pb.UpdateContainerResourcesRequest(
            container_id=container_id, linux=pb.LinuxContainerResources(**changes)
        )
        try:
            server.client.UpdateContainerResources(request, timeout=CALL)
        except grpc.RpcError as error:
            return code(error)
        return grpc.StatusCode.OK

    if not Path("/sys/fs/cgroup/memory").exists():
        pytest.fail("written for cgroup version 1; tests/vm has version 2")
    before = {name: look() for name, (_, look) in files.items()}
    for name, (value, look) in files.items():
        assert update(**{name: value}) is grpc.StatusCode.OK, name
        before[name] = str(value)
        assert look() == str(value)
        assert {other: f() for other, (_, f) in files.items()} == before, f"after {name}"
    told = container_status(server, container_id).resources.linux
    assert {name: getattr(told, name) for name in files} == {name: value for name, (value, _) in files.items()}

    bad = {"memory_limit_in_bytes": -1, "cpu_quota": -2, "cpuset_cpus": "x", "oom_score_adj": 1001}
    bad |= {"memory_swap_limit_in_bytes": 1, "cpu_shares": -1}
    for name, value in bad.items():
        assert update(**{"cpu_shares": 100, name: value}) is grpc.StatusCode.INVALID_ARGUMENT, name
    assert update(cpu_shares=100, cpuset_cpus="4000") is not grpc.StatusCode.OK, "processors that are not there"
    assert {name: look() for name, (_, look) in files.items()} == before
    assert container_status(server, container_id).resources.linux == told

    engine.api.call("POST", f"/containers/{container_id}/update", json_body={"CpuShares": 256, "Memory": 32 * MIB})
    until(lambda: container_status(server, container_id).resources.linux.cpu_shares == 256, "somebody else's change")
    assert container_status(server, container_id).resources.linux.memory_limit_in_bytes == 32 * MIB
    assert limits(engine.api, container_id)[0] == str(32 * MIB)
    told = container_status(server, container_id).resources.linux
    server.restart()
    assert container_status(server, container_id).resources.linux == told


def test_recursive_read_only(server: CrishimServer, engine: TestEngine, tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    (folder / "sub").mkdir(parents=True)
    kernel.mount("tmpfs", folder / "sub", "tmpfs")
    mount = pb.Mount(host_path=str(folder), container_path="/data", readonly=True, recursive_read_only=True)
    pod = Pod(server)
    handlers = server.client.Status(pb.StatusRequest(), timeout=CALL).runtime_handlers
    claimed = {handler.features.recursive_read_only_mounts for handler in handlers}
    try:
        if api_version(engine) >= FIRST_API[Feature.READONLY_RECURSION]:
            assert claimed == {True}
        if FRONTED or claimed == {True}:
            assert True in claimed
            container_id = pod.start(make_container(mounts=[mount]))
            found = mounts_of(pid_of(engine.api, container_id))
            assert "ro" in found["/data"].options & found["/data/sub"].options
        else:
            assert claimed == {False}
            with pytest.raises(grpc.RpcError) as caught:
                pod.create(make_container(mounts=[mount]))
            assert (code(caught.value), text(caught.value)[:15]) == (
                grpc.StatusCode.FAILED_PRECONDITION,
                "RROUnsupported:",
            )
        assert [state for key, state in listed_states(server).items() if key == pod.id] == [pb.SANDBOX_READY]
    finally:
        server.remove_all()
        kernel.umount(str(folder / "sub"))


def test_image_ref_of_a_request(server: CrishimServer, engine: TestEngine) -> None:
    """Is for answers: what a request says there is not believed."""
    image_id = engine.api.call("GET", f"/images/{BUSYBOX_REF}/json")["Id"]
    container_id = Pod(server).create(make_container(image=pb.ImageSpec(image=BUSYBOX_REF, image_ref="sha256:made-up")))
    told = container_status(server, container_id)
    assert (told.image_ref, told.image.image_ref) == (image_id, "")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "duplicate destination": (
        {"mounts": [pb.Mount(host_path="/", container_path=path) for path in ("/a", "/b/../a/")]},
        "config.mounts[1].container_path",
    ),
    "root": ({"mounts": [pb.Mount(host_path="/", container_path="/")]}, "config.mounts[0].container_path"),
    "NUL in a word": ({"args": ["ok", "a\0b"]}, "config.args[1]"),
    "word that no process can be given": ({"command": ["true", "x" * (LONGEST_STRING + 1)]}, "config.command[1]"),
    "variable that no process can be given": (
        {"envs": [pb.KeyValue(key="A", value=b"x" * LONGEST_STRING)]},
        "config.envs[0].value",
    ),
    "relative folder": ({"working_dir": "a"}, "config.working_dir"),
    "masked relative": ({"linux": linux(masked_paths=["proc"])}, "config.linux.security_context.masked_paths[0]"),
    "handler of the image": (
        {"image": pb.ImageSpec(image=BUSYBOX_REF, runtime_handler="no-such")},
        "no runtime 'no-such'",
    ),
    "user that the image lacks": (
        {"linux": linux(run_as_username="nobody-at-all")},
        "config.linux.security_context.run_as_username",
    ),
}


LACKING: dict[str, dict[str, Any]] = {
    "apparmor": {"apparmor": pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref="mine")},
    "apparmor_profile": {"apparmor_profile": "localhost/mine"},
    "selinux_options": {"selinux_options": pb.SELinuxOption(level="s0:c1,c2")},
    "add_ambient_capabilities": {"capabilities": pb.Capability(add_ambient_capabilities=["KILL"])},
    "unified": {"resources": pb.LinuxContainerResources(unified={"memory.high": "1"})},
    "hugepage_limits[0]": {
        "resources": pb.LinuxContainerResources(hugepage_limits=[pb.HugepageLimit(page_size="2MB", limit=2 * MIB)])
    },
}
"""What the engine's API or a test world's kernel does not have, by the field that the refusal names."""


def test_bad_values(server: CrishimServer, engine: TestEngine, tmp_path: Path) -> None:
    """Beside those of test_bad_input: refused with the field's path, and nothing is created."""
    large, rules = tmp_path / "large", tmp_path / "rules"
    large.write_bytes(b" " * (10 << 20))
    rules.write_text('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir"], "action": "NO"}]}')
    os.mkfifo(tmp_path / "fifo")
    places = [*(str(tmp_path / name) for name in ("missing", "fifo", "large", "rules")), str(tmp_path), "rules"]
    localhost = pb.SecurityProfile.Localhost
    profiles: dict[str, tuple[dict[str, Any], str]] = {
        place: (
            {"linux": linux(seccomp=pb.SecurityProfile(profile_type=localhost, localhost_ref=place))},
            "config.linux.security_context.seccomp.localhost_ref",
        )
        for place in places
    }
    pod = Pod(server)
    wrong = {}
    for name, (changes, where) in (BAD | profiles).items():
        with pytest.raises(grpc.RpcError) as caught:
            pod.create(make_container(**changes))
        found = (code(caught.value), where in text(caught.value))
        if found != (grpc.StatusCode.INVALID_ARGUMENT, True):
            wrong[name] = (found, text(caught.value))
    assert wrong == {}
    for where, context in LACKING.items():
        with pytest.raises(grpc.RpcError) as caught:
            pod.create(make_container(linux=linux(**context)))
        assert (code(caught.value), where in text(caught.value)) == (grpc.StatusCode.FAILED_PRECONDITION, True), where
    raw = make_container(envs=[pb.KeyValue(key="A", value=b"\xff\xfe")])
    if FRONTED:
        return  # the front carries it
    with pytest.raises(grpc.RpcError, match=r"config\.envs\[0\]\.value: byte 0 is not UTF-8"):
        pod.create(raw)
    assert list(listed_states(server)) == [pod.id]
    shown = engine.api.call("GET", "/containers/json?all=1")
    assert [container["Id"] for container in shown] == [pod.id]


def test_cdi_devices(request: pytest.FixtureRequest, engine: TestEngine, tmp_path: Path) -> None:
    """A specification's device is there, where the engine has CDI; elsewhere it is refused."""
    config = make_container(CDI_devices=[pb.CDIDevice(name="vendor.example/class=one")])
    if api_version(engine) < FIRST_API[Feature.CDI_DEVICES]:
        pod = Pod(request.getfixturevalue("server"))
        with pytest.raises(grpc.RpcError, match="FAILED_PRECONDITION") as caught:
            pod.create(config)
        assert "config.CDI_devices" in text(caught.value)
        return
    folder = tmp_path / "cdi"
    folder.mkdir()
    device = {"name": "one", "containerEdits": {"env": ["FROM_CDI=1"], "deviceNodes": [{"path": "/dev/full"}]}}
    spec = {"cdiVersion": "0.5.0", "kind": "vendor.example/class", "devices": [device]}
    (folder / "vendor.json").write_text(json.dumps(spec))
    switched_on = {"features": {"cdi": True}, "cdi-spec-dirs": [str(folder)]}
    with_cdi: TestEngine = request.getfixturevalue("new_engine")(config=switched_on)
    busybox().load(with_cdi.api, BUSYBOX_REF)
    server: CrishimServer = request.getfixturevalue("new_server")(with_cdi.url)
    server.start()
    pid = pid_of(with_cdi.api, Pod(server).start(config))
    assert Path(f"/proc/{pid}/root/dev/full").is_char_device()
    assert b"FROM_CDI=1" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    server.remove_all()
    assert_nothing_left(server, with_cdi.api)
