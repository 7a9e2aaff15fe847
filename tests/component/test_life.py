"""A server's life: starting, refusing to start, being stopped, killed and started again; on the simulated engine."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from crishim.cli import FAILED, MISCONFIGURED, TAKEN
from crishim.cri.v1 import runtime_pb2 as pb
from crishim.testing.client import CRIClient
from crishim.testing.endpoint import CRIEndpoint, serve_endpoint
from tests.component.conftest import LIMIT, World, make_pod

Code = grpc.StatusCode


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose path leaves room for a socket's name."""
    return tmp_path_factory.mktemp("s")


def serve(*flags: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`crishim serve` for a case in which it ends by itself."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("CRISHIM_")}
    command = [sys.executable, "-m", "crishim", "serve", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=clean | environ)


def socket_of(server: CRIEndpoint) -> Path:
    return Path(server.endpoint.removeprefix("unix://"))


def test_it_says_once_that_it_is_ready_and_ends_without_a_trace(short: Path) -> None:
    with serve_endpoint(folder=short) as server:
        path = socket_of(server)
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert path.with_name("crishim.sock.lock").read_text() == f"{server.pid}\n"
        assert server.stop() == 0
    assert not path.exists()
    assert not path.with_name("crishim.sock.lock").exists()
    [ready] = [line for line in server.log_path.read_text().splitlines() if "READY" in line]
    for words in (
        " s: crishim ",
        "engine simulated ",
        "network none",
        "checkpoints sqlite",
        f"listening on unix://{path}",
    ):
        assert words in ready


def test_a_second_server_is_refused_in_one_line_and_the_first_lives(world: World, short: Path) -> None:
    path = socket_of(world.server)
    flags = (
        "--listen",
        world.server.endpoint,
        "--engine",
        "simulated:",
        "--state-dir",
        str(short),
        "--network",
        "none",
    )
    second = serve(*flags, "--run-dir", str(short))
    assert second.returncode == TAKEN
    assert second.stderr.splitlines() == [
        f"crishim: {path} is served by process {world.server.pid}; stop it, or choose another --listen"
    ]
    assert list(short.iterdir()) == [], "the second touched nothing"
    assert world.client.Version(b"", timeout=LIMIT).version


def test_a_killed_servers_socket_is_replaced_and_its_records_are_read(short: Path) -> None:
    with serve_endpoint(folder=short) as server:
        with CRIClient(server.endpoint) as client:
            made = client.RunPodSandbox(pb.RunPodSandboxRequest(config=make_pod()), timeout=LIMIT).pod_sandbox_id
        server.kill()
        assert socket_of(server).exists()
    with serve_endpoint(folder=short) as again, CRIClient(again.endpoint) as client:
        [listed] = client.ListPodSandbox(b"", timeout=LIMIT).items
        assert (listed.id, listed.state) == (made, pb.SANDBOX_NOTREADY), "the simulated engine ended with its process"
        assert listed.metadata.name == "web"
        client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=made), timeout=LIMIT)
        assert not client.ListPodSandbox(b"", timeout=LIMIT).items


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_calls_under_way_end(world: World, number: signal.Signals) -> None:
    """A container that takes a second to die is being stopped when the signal comes."""
    container_id = world.create(world.run_pod(), command=["app", "ignore-term"])
    world.start(container_id)
    call = world.client.StopContainer.future(
        pb.StopContainerRequest(container_id=container_id, timeout=1), timeout=LIMIT
    )
    wait_until(lambda: b"SIGTERM" in world.server.log_path.read_bytes() or not call.done(), 1)
    settle(world)
    world.server.process.send_signal(number)
    call.result()
    assert world.server.process.wait(LIMIT) == 0
    assert not socket_of(world.server).exists()


def test_calls_that_take_longer_than_the_limit_are_cancelled(short: Path) -> None:
    with serve_endpoint(flags=("--drain-limit", "0.2")) as server, CRIClient(server.endpoint) as client:
        world = World(server, client)
        call = stopping_for_long(world)
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 15
        with pytest.raises(grpc.RpcError):
            call.result()


def test_a_second_signal_does_not_wait(world: World) -> None:
    call = stopping_for_long(world)
    began = time.monotonic()
    for _ in range(2):
        world.server.process.send_signal(signal.SIGINT)
        wait_until(lambda: b"received SIGINT" in world.server.log_path.read_bytes(), LIMIT)
    assert world.server.process.wait(LIMIT) == 0
    assert time.monotonic() - began < 15
    with pytest.raises(grpc.RpcError):
        call.result()


def stopping_for_long(world: World) -> grpc.Future[object]:
    """A StopContainer that will take two minutes, under way."""
    container_id = world.create(world.run_pod(), command=["app", "ignore-term"])
    world.start(container_id)
    request = pb.StopContainerRequest(container_id=container_id, timeout=120)
    call: grpc.Future[object] = world.client.StopContainer.future(request, timeout=200)
    settle(world)
    return call


def settle(world: World) -> None:
    """Return when the server has taken up the calls sent before: it takes them in order of arrival."""
    for _ in range(3):
        world.client.Version(b"", timeout=LIMIT)


def wait_until(condition: Callable[[], bool], limit: float) -> None:
    """Wait for a condition that only looking can tell."""
    end, pause = time.monotonic() + limit, threading.Event()
    while not condition():
        assert time.monotonic() < end, "it never came"
        pause.wait(0.01)


def test_without_an_engine_it_serves_what_a_kubelet_needs_at_its_start(short: Path) -> None:
    nowhere = f"unix://{short}/no.sock"
    with (
        serve_endpoint(nowhere, folder=short / "x", wait_engine=False) as server,
        CRIClient(server.endpoint) as client,
    ):
        version = client.Version(b"", timeout=LIMIT)
        assert all((version.version, version.runtime_name, version.runtime_version, version.runtime_api_version))
        conditions = {c.type: c for c in client.Status(b"", timeout=LIMIT).status.conditions}
        assert not conditions["RuntimeReady"].status
        assert conditions["RuntimeReady"].reason == "DockerDaemonNotReady"
        assert "No such file" in conditions["RuntimeReady"].message
        assert conditions["NetworkReady"].status
        assert not client.RuntimeConfig(b"", timeout=LIMIT).HasField("linux"), "unknown is not SYSTEMD"
        usage = client.ImageFsInfo(b"", timeout=LIMIT)
        assert Path(usage.image_filesystems[0].fs_id.mountpoint).is_dir()
        world = World(server, client)
        for rpc, request in (
            ("ListPodSandbox", b""),
            ("ListContainers", b""),
            ("ListImages", b""),
            ("PodSandboxStatus", pb.PodSandboxStatusRequest(pod_sandbox_id="x")),
            ("ContainerStatus", pb.ContainerStatusRequest(container_id="x")),
            ("RunPodSandbox", pb.RunPodSandboxRequest(config=make_pod())),
            ("PullImage", pb.PullImageRequest(image=pb.ImageSpec(image="a:1"))),
        ):
            began = time.monotonic()
            code, _ = world.failure(rpc, request)
            assert (rpc, code) == (rpc, Code.UNAVAILABLE)
            assert time.monotonic() - began < LIMIT / 2, rpc
        assert server.stop() == 0
        assert "engine away" in server.log_path.read_text()


def test_all_that_is_wrong_with_the_configuration_is_told_and_nothing_is_touched(short: Path) -> None:
    ended = serve("--listen", str(short / "c.sock"), "--nonsense", CRISHIM_NETWORK="calico")
    assert ended.returncode == MISCONFIGURED
    assert [line.split(":")[1].strip() for line in ended.stderr.splitlines()] == [
        "--nonsense",
        "environment CRISHIM_NETWORK",
        "flag --listen",
    ]
    assert list(short.iterdir()) == []


@pytest.mark.parametrize("what", ["run folder", "state folder", "timeline"])
def test_a_folder_that_cannot_be_used_is_told_in_one_line(short: Path, what: str) -> None:
    (short / "file").write_text("")
    below = str(short / "file" / "x")
    flags = ["--engine", "simulated:", "--run-dir", str(short), "--state-dir", str(short / "state")]
    flags += ["--listen", f"unix://{below if what == 'run folder' else short / 'c.sock'}"]
    flags += ["--state-dir", below] if what == "state folder" else []
    flags += ["--timeline", below] if what == "timeline" else []
    ended = serve(*flags)
    assert ended.returncode == FAILED
    told = [line for line in ended.stderr.splitlines() if line.startswith("crishim: ")]
    assert len(told) == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert str(short / "file") in told[0]
    assert not (short / "c.sock").exists()


def test_a_network_needs_a_real_engine(short: Path) -> None:
    ended = serve("--engine", "simulated:", "--network", "cni", "--listen", f"unix://{short}/c.sock")
    assert ended.returncode == MISCONFIGURED
    assert ended.stderr == (
        "crishim: flag --network: 'cni' is not allowed: it needs a real engine: the simulated one's pods have no "
        "namespace\n"
    )
