"""AppArmor: critest's nine specs, and what the kernel says of the processes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import grpc
import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.conformance import critest, results, tools
from tests.conformance.critest import Spec
from tests.conformance.results import EngineIdentity, Result
from tests.vm import SUITE
from tests.vm.node import ENDPOINT, Node

FOCUS = "AppArmor"
SPECS = 9
"""Of cri-tools 1.37.0."""
_LIMIT = 900.0
PROFILE = "crishim-test"
_RULES = f"profile {PROFILE} flags=(attach_disconnected) {{ file, signal, deny /tmp/** w, }}\n"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each spec."""
    if "spec_name" in metafunc.fixturenames:
        try:
            names = [name for name in critest.spec_names() if FOCUS in name]
        except tools.ToolsMissingError:
            names = ["critest is not built"]
        metafunc.parametrize("spec_name", names, ids=[name.removeprefix("[k8s.io] ") for name in names])


@pytest.fixture(scope="module")
def judged(shared_node: Node) -> dict[str, Spec]:
    """critest's run in the guest: its specs by name."""
    try:
        program = tools.critest_path()
    except tools.ToolsMissingError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"conformance: not run ({error})", pytrace=False)
        pytest.skip(f"conformance: not run ({error})")
    guest, report = shared_node.guest, "/root/critest.json"
    guest.put(program, "/usr/local/bin/critest")
    flags = [f"-runtime-endpoint={ENDPOINT}", f"-image-endpoint={ENDPOINT}", f"--ginkgo.focus={FOCUS}"]
    seed, began = critest.fresh_seed(), time.monotonic()
    flags += [f"--ginkgo.seed={seed}", f"--ginkgo.json-report={report}", "--ginkgo.no-color"]
    try:
        guest.run(f"cd /root && critest {' '.join(flags)} </dev/null >critest.log 2>&1", limit=_LIMIT, check=False)
    finally:
        print(guest.run("tail -n 200 /root/critest.log"))  # shown with what fails
    specs = critest.read_report(json.loads(guest.read(report)), benchmark=False)
    found = {spec.name: spec for spec in specs if FOCUS in spec.name}
    engine = EngineIdentity(results.VIRTUAL + SUITE, shared_node.call("Version").runtime_version, "")
    seconds = round(time.monotonic() - began, 1)
    results.save(Result(engine, tools.version(), results.commit(), seed, seconds, list(found.values())))
    return found


def test_spec(spec_name: str, judged: dict[str, Spec]) -> None:
    spec = judged[spec_name]
    if spec.state != "passed":
        pytest.fail(f"{spec.state}: {spec.message}", pytrace=False)


def test_all_specs_were_run(judged: dict[str, Spec]) -> None:
    assert len(judged) == SPECS


def confinement(node: Node, container_id: str) -> str:
    """What the kernel says of a container's process."""
    return node.guest.read(f"/proc/{node.pid(container_id)}/attr/current")


def context(kind: pb.SecurityProfile.ProfileType.ValueType, name: str = "") -> pb.LinuxContainerSecurityContext:
    """A container's security context with this AppArmor profile."""
    return pb.LinuxContainerSecurityContext(apparmor=pb.SecurityProfile(profile_type=kind, localhost_ref=name))


def test_profiles_are_those_asked_for(node: Node, tmp_path: Path) -> None:
    node.guest.run("apparmor_parser --replace", data=_RULES.encode())
    kinds, default = pb.SecurityProfile, "docker-default (enforce)"
    with node.pod() as pod:
        assert confinement(node, pod.start()) == default
        assert confinement(node, pod.start(security_context=context(kinds.RuntimeDefault))) == default
        assert confinement(node, pod.start(security_context=context(kinds.Unconfined))) == "unconfined"
        script = "echo x >/tmp/file; exec sleep 100000"
        named = pod.start(script, security_context=context(kinds.Localhost, PROFILE))
        assert confinement(node, named) == f"{PROFILE} (enforce)"
        assert node.guest.run(f"ls /proc/{node.pid(named)}/root/tmp") == ""
    node.guest.run("apparmor_parser --remove", data=_RULES.encode())


def test_a_profile_that_is_not_loaded_is_an_error(node: Node) -> None:
    with node.pod() as pod:
        with pytest.raises(grpc.RpcError, match="nobody-loaded-this"):
            pod.start(security_context=context(pb.SecurityProfile.Localhost, "nobody-loaded-this"))
        assert not node.call("ListContainers", filter=pb.ContainerFilter(pod_sandbox_id=pod.id)).containers
