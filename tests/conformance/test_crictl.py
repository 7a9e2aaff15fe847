"""crictl walks a pod from its image to its removal, as an administrator does; what it prints is checked."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import server
from tests.env import images
from tests.env.engine import TestEngine
from tests.env.registry import Registry

pytestmark = pytest.mark.engine


class Crictl:
    """crictl with an endpoint."""

    def __init__(self, program: Path, endpoint: str, place: Path) -> None:
        self._program = program
        self._config = place / "crictl.yaml"
        self._config.write_text(f"runtime-endpoint: {endpoint}\nimage-endpoint: {endpoint}\ntimeout: 60\n")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """One command that goes on; what it prints is read from its `stdout`."""
        command = [str(self._program), f"--config={self._config}", *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One command, whatever becomes of it."""
        command = [str(self._program), f"--config={self._config}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    def __call__(self, *arguments: str) -> str:
        """One command that must succeed; gives what it prints."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"crictl {' '.join(arguments)}: {done.stderr}"
        return done.stdout.strip()

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """One command that runs until the block ends."""
        command = [str(self._program), f"--config={self._config}", *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    def json(self, *arguments: str) -> Any:
        """One command that must succeed and print JSON."""
        return json.loads(self(*arguments))


@pytest.fixture
def crictl(
    crictl_program: Path, nothing_left: None, engine: TestEngine, world_folder: Path, tmp_path: Path
) -> Iterator[Crictl]:
    place = Path(tempfile.mkdtemp(prefix="walk-", dir=world_folder / "tmp"))  # short, for the socket
    with server.serve(engine.url, place) as endpoint:
        yield Crictl(crictl_program, endpoint, tmp_path)
    shutil.rmtree(place)


@pytest.fixture
def reference(registry: Registry) -> str:
    registry.push(images.busybox(), "walk/busybox:1")
    return registry.ref("walk/busybox:1")


def write(file: Path, document: object) -> str:
    file.write_text(json.dumps(document))
    return str(file)


def _look_at_figures(crictl: Crictl, pod: str, container: str) -> None:
    """What a running pod costs."""
    (stats,) = crictl.json("stats", "--output", "json", container)["stats"]
    assert stats["attributes"]["metadata"] == {"name": "sleeper", "attempt": 2}
    assert int(stats["cpu"]["usageCoreNanoSeconds"]["value"]) > 0
    assert int(stats["memory"]["workingSetBytes"]["value"]) > 0
    assert int(stats["memory"]["availableBytes"]["value"]) < 96 << 20
    assert Path(stats["writableLayer"]["fsId"]["mountpoint"]).is_dir()
    (stats,) = crictl.json("statsp", "--output", "json", "--id", pod)["stats"]
    assert stats["linux"]["network"]["defaultInterface"]["name"] == "eth0"
    assert stats["linux"]["process"]["processCount"]["value"] == "2"
    assert [c["attributes"]["id"] for c in stats["linux"]["containers"]] == [container]

    described = {d["name"]: d for d in crictl.json("metricdescs")["descriptors"]}
    (metrics,) = crictl.json("metricsp")["podMetrics"]
    assert metrics["podSandboxId"] == pod
    (of_container,) = metrics["containerMetrics"]
    for metric in (*metrics["metrics"], *of_container["metrics"]):
        assert len(metric["labelValues"]) == len(described[metric["name"]]["labelKeys"])
        assert int(metric["value"]["value"]) >= 0
    told = {metric["name"] for metric in (*metrics["metrics"], *of_container["metrics"])}
    optional = ("blkio", "fs_reads", "fs_writes", "hugetlb", "pressure", "spec_cpu_quota")
    needed = {name for name in described if not name.removeprefix("container_").startswith(optional)}
    assert needed <= told


def test_events(crictl: Crictl, reference: str, tmp_path: Path) -> None:
    with crictl.started("events", "--output", "json") as events:
        pod_file = write(
            tmp_path / "pod.json",
            {"metadata": {"name": "seen", "namespace": "default", "uid": "seen-uid"}, "hostname": "seen", "linux": {}},
        )
        # A client that has begun need not be listening yet.
        decoder, text = json.JSONDecoder(), ""
        told: list[dict[str, Any]] = []
        pod = crictl("runp", pod_file)
        assert events.stdout is not None
        crictl("stopp", pod)
        crictl("rmp", pod)
        while not told or told[-1]["containerEventType"] != "CONTAINER_DELETED_EVENT":
            text = (text + events.stdout.readline()).lstrip()
            try:
                event, end = decoder.raw_decode(text)
            except ValueError:
                continue
            told.append(event)
            text = text[end:]
    assert {event["containerId"] for event in told} == {pod}
    assert told[-1]["podSandboxStatus"]["metadata"]["name"] == "seen"
    kinds = [event["containerEventType"].split("_")[1] for event in told]
    assert kinds == ["CREATED", "STARTED", "STOPPED", "DELETED"][-len(kinds) :]


def test_walk(crictl: Crictl, reference: str, engine: TestEngine, tmp_path: Path) -> None:
    version = crictl("version")
    assert f"RuntimeVersion:  {engine.api.call('GET', '/version')['Version']}" in version
    assert "RuntimeApiVersion:  v1" in version
    conditions = crictl.json("info")["status"]["conditions"]
    assert {condition["type"]: condition["status"] for condition in conditions} == {
        "RuntimeReady": True,
        "NetworkReady": True,
    }

    assert "Image is up to date" in crictl("pull", reference)
    image = crictl.json("inspecti", reference)["status"]
    assert reference in image["repoTags"]
    assert image["id"] in crictl("images", "--quiet", "--no-trunc")
    assert int(crictl.json("imagefsinfo", "-o", "json")["status"]["imageFilesystems"][0]["usedBytes"]["value"]) > 0

    pod_file = write(
        tmp_path / "pod.json",
        {
            "metadata": {"name": "walk", "namespace": "default", "uid": "walk-uid", "attempt": 1},
            "hostname": "walk",
            "log_directory": str(tmp_path / "logs"),
            "labels": {"app": "walk"},
            "linux": {},
        },
    )
    container_file = write(
        tmp_path / "container.json",
        {
            "metadata": {"name": "sleeper", "attempt": 2},
            "image": {"image": reference},
            "command": ["sh", "-c", "for i in 1 2 3; do echo line $i; done; exec sleep 1000"],
            "labels": {"role": "sleeper"},
            "log_path": "sleeper.log",
            "linux": {"resources": {"memory_limit_in_bytes": 64 << 20}},
        },
    )
    pod = crictl("runp", pod_file)
    shown = crictl.json("inspectp", pod)["status"]
    assert shown["state"] == "SANDBOX_READY"
    assert shown["metadata"] == {"name": "walk", "namespace": "default", "uid": "walk-uid", "attempt": 1}
    assert shown["network"]["ip"]
    assert crictl("pods", "--quiet", "--no-trunc", "--state", "Ready", "--label", "app=walk") == pod

    container = crictl("create", pod, container_file, pod_file)
    assert crictl("ps", "--all", "--quiet", "--no-trunc", "--state", "Created") == container
    assert crictl("start", container) == container
    assert crictl("ps", "--quiet", "--no-trunc", "--label", "role=sleeper") == container
    status = crictl.json("inspect", container)["status"]
    assert status["state"] == "CONTAINER_RUNNING"
    assert status["metadata"] == {"name": "sleeper", "attempt": 2}
    assert status["image"]["image"] == reference

    check_logs(crictl, container)
    crictl("update", "--memory", str(96 << 20), container)
    assert engine.api.call("GET", f"/containers/{container}/json")["HostConfig"]["Memory"] == 96 << 20
    resources = crictl.json("inspect", container)["status"]["resources"]["linux"]
    assert int(resources["memoryLimitInBytes"]) == 96 << 20

    _look_at_figures(crictl, pod, container)

    in_use = crictl.run("rm", container)
    assert in_use.returncode != 0
    assert "running" in in_use.stderr.lower()
    assert crictl("stop", "--timeout", "1", container) == container
    assert crictl.json("inspect", container)["status"]["state"] == "CONTAINER_EXITED"
    assert crictl("rm", container) == container
    assert crictl("ps", "--all", "--quiet") == ""

    assert pod in crictl("stopp", pod)
    assert crictl.json("inspectp", pod)["status"]["state"] == "SANDBOX_NOTREADY"
    assert pod in crictl("rmp", pod)
    assert crictl("pods", "--quiet") == ""
    assert reference in crictl("rmi", reference)
    assert image["id"] not in crictl("images", "--quiet", "--no-trunc")


def check_logs(crictl: Crictl, container: str) -> None:
    """`crictl logs` in each form, of a container that has printed three lines and runs on."""
    end = time.monotonic() + 30
    while crictl("logs", container).split("\n") != ["line 1", "line 2", "line 3"]:
        assert time.monotonic() < end, crictl("logs", container)
        time.sleep(0.05)
    assert crictl("logs", "--tail", "1", container) == "line 3"
    stamped = crictl("logs", "--timestamps", container).split("\n")
    assert [line.split(" ", 1)[1] for line in stamped] == ["line 1", "line 2", "line 3"]
    moments = [line.split(" ", 1)[0] for line in stamped]
    assert moments == sorted(moments)
    assert crictl("logs", "--since", "1h", container).count("line") == 3
    assert crictl("logs", "--since", "2999-01-01T00:00:00Z", container) == ""
    assert crictl("logs", "--limit-bytes", "6", container) == "line 1"
    follow = crictl.start("logs", "--follow", "--tail", "2", container)
    try:
        assert follow.stdout is not None
        assert [follow.stdout.readline() for _ in range(2)] == ["line 2\n", "line 3\n"]
        log = Path(crictl.json("inspect", container)["status"]["logPath"])
        log.rename(f"{log}.old")
        crictl("logs", "--reopen", container)
        assert log.exists()
    finally:
        follow.kill()
        follow.communicate()


def test_what_is_not_there_is_said_so(crictl: Crictl) -> None:
    for command, what in (("inspectp", "sandbox"), ("inspect", "container"), ("inspecti", "image")):
        done = crictl.run(command, "0123456789abcdef")
        assert done.returncode != 0
        assert "0123456789abcdef" in done.stderr, what
