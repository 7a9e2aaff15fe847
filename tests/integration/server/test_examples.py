"""The first example, as `make demo` runs it, and crictl's pull with credentials."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from tests.conformance import tools
from tests.env.cache import ROOT
from tests.env.engine import TestEngine
from tests.env.images import File, busybox
from tests.env.registry import Registry
from tests.integration.server.residue import engine_containers
from tests.integration.server.serving import CALL, CrishimServer

pytestmark = pytest.mark.engine
DEMO = ROOT / "examples" / "01-pod" / "demo.py"


@pytest.fixture
def mount_folder() -> Iterator[None]:
    """umount(8), which the example runs, makes a folder of its own where a machine has not one already."""
    folder = Path("/run/mount")
    existed = folder.exists()
    yield
    if not existed:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.usefixtures("alone", "nothing_left", "mount_folder")
def test_a_pod_end_to_end(engine: TestEngine, busybox_image: str) -> None:
    command = [sys.executable, str(DEMO), f"--engine={engine.url}", f"--image={busybox_image}"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CRISHIM_")}
    shown = environ | {"PATH": f"{tools.crictl_path().parent}:{environ['PATH']}"}
    for environment in (environ, shown):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "hello from the pod" in done.stdout
        assert " stdout F search demo.example" in done.stdout, "the pod's resolv.conf, in the container's log"
        assert "SAID THROUGH A WEBSOCKET" in done.stdout
        assert "exit code 3" in done.stdout
        assert "exit code 5" in done.stdout
        assert "rotated: client.log.old has" in done.stdout
        assert "the other pod got: hello from the pod" in done.stdout
        assert "this machine got: hello from the pod" in done.stdout
        assert "left behind: 0 objects" in done.stdout
        assert ("RuntimeApiVersion:  v1" in done.stdout) is (environment is shown)
        assert engine_containers(engine.api) == []


@pytest.mark.parametrize("plugins", [None, "/usr/lib/cni"], ids=["embedded", "reference plugins"])
@pytest.mark.usefixtures("alone")
def test_two_pods_reach_each_other(
    engine: TestEngine, busybox_image: str, plugins: str | None, request: pytest.FixtureRequest
) -> None:
    """By crictl, on a machine without CNI, and with a conflist of the reference plugins."""
    script = ROOT / "examples" / "04-network" / "network.py"
    command = [sys.executable, str(script), f"--engine={engine.url}", f"--image={busybox_image}"]
    command += [f"--crictl={tools.crictl_path()}", *([f"--cni={plugins}"] if plugins else [])]
    if not plugins:  # the reference plugins leave chains and folders
        request.getfixturevalue("nothing_left")
    request.getfixturevalue("mount_folder")
    leases, had_leases = Path("/var/lib/cni"), Path("/var/lib/cni").exists()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CRISHIM_")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    if not had_leases:
        shutil.rmtree(leases, ignore_errors=True)
    for rest in ("-F FORWARD", "-F CNI-FORWARD", "-X CNI-FORWARD", "-X CNI-ADMIN") if plugins else ():
        subprocess.run(["iptables", *rest.split()], check=True)  # what the reference firewall plugin leaves
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the visitor got: hello from web" in done.stdout
    assert "the host port answered: hello from web" in done.stdout
    first = "10.85.0." if plugins else "10.86.0."
    assert f"pod web has the address {first}2" in done.stdout


def test_crictl_pulls_with_credentials(server: CrishimServer, auth_registry: Registry) -> None:
    auth_registry.push(busybox().with_files(File("private")), "private/busybox:1")
    reference = auth_registry.ref("private/busybox:1")
    crictl = [str(tools.crictl_path()), f"--runtime-endpoint={server.endpoint}", f"--image-endpoint={server.endpoint}"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*crictl, *arguments], capture_output=True, text=True, timeout=60, check=False)

    assert run("pull", reference).returncode != 0
    assert run("pull", f"--creds={auth_registry.username}:wrong", reference).returncode != 0
    assert run("inspecti", reference).returncode != 0, "nothing was pulled"
    pulled = run("pull", f"--creds={auth_registry.username}:{auth_registry.password}", reference)
    assert pulled.returncode == 0, pulled.stderr
    status = json.loads(run("inspecti", reference).stdout)["status"]
    assert status["repoTags"] == [reference]
    assert run("rmi", reference).returncode == 0
    image = pb.ImageSpec(image=reference)
    assert not server.client.ImageStatus(pb.ImageStatusRequest(image=image), timeout=CALL).HasField("image")
