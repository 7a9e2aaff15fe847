"""`cri_endpoint` on a real engine: pods are real, and nothing of them is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import CRIClient
from crishim.testing.endpoint import serve_endpoint
from tests.env.engine import TestEngine

pytestmark = [pytest.mark.engine, pytest.mark.root]

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "03-pytest-fixture"


def containers(engine: TestEngine) -> list[str]:
    return [c["Id"] for c in engine.api.call("GET", "/containers/json?all=1")]


def test_the_example_runs_on_a_real_engine(engine: TestEngine) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--crishim-engine", engine.url]
    ran = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, timeout=300, check=False)
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr
    assert containers(engine) == []


@pytest.mark.parametrize("end", ["stop", "kill", "stay"])
def test_pods_are_gone_at_the_end_however_the_server_ended(engine: TestEngine, end: str) -> None:
    with serve_endpoint(engine.url) as server:
        folder = server.state_dir.parent
        with CRIClient(server.endpoint) as client:
            metadata = pb.PodSandboxMetadata(name="web", uid="uid-web", namespace="default")
            config = pb.PodSandboxConfig(metadata=metadata, hostname="web")
            made = client.RunPodSandbox(pb.RunPodSandboxRequest(config=config), timeout=60).pod_sandbox_id
        assert containers(engine) == [made]
        if end == "stop":
            assert server.stop() == 0
        elif end == "kill":
            server.kill()
        assert containers(engine) == [made], "a server's end is no pod's end"
    assert containers(engine) == []
    assert not folder.exists()
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
