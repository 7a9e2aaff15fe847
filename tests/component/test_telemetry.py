"""What a server tells of itself: on a real port, to well-behaved readers and to others."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from crishim.cli import FAILED, MISCONFIGURED
from crishim.cri.v1 import runtime_pb2 as pb
from crishim.telemetry.server import HEAD_LIMIT, MOST_CLIENTS
from crishim.testing.client import CRIClient
from crishim.testing.endpoint import serve_endpoint
from tests.component.conftest import LIMIT, World
from tests.component.test_life import serve

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@dataclass
class Watched:
    """A server with a port for metrics."""

    world: World
    host: str
    port: int

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
        """Status, type and text of an answer."""
        request = urllib.request.Request(f"http://{self.host}:{self.port}{path}", method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read().decode()

    def samples(self) -> Samples:
        """All samples, by name and labels."""
        families = parse_text(self.get("/metrics")[2])
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families
            for sample in family.samples
        }

    def say(self, data: bytes) -> bytes:
        """What is answered to these bytes, up to the end of the connection."""
        with socket.create_connection((self.host, self.port), LIMIT) as client:
            client.sendall(data)
            answer = b""
            while more := client.recv(4096):
                answer += more
            return answer


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    flags = ["--metrics-address", "127.0.0.1:0"]
    with serve_endpoint(flags=flags) as server, CRIClient(server.endpoint) as client:
        found = re.search(r"metrics at http://([\d.]+):(\d+)/metrics", server.log_path.read_text())
        assert found, server.log_path.read_text()
        yield Watched(World(server, client), found[1], int(found[2]))
        assert "Traceback" not in server.log_path.read_text()


def test_what_the_server_does_is_counted(watched: Watched) -> None:
    world = watched.world
    before = watched.samples()
    sandbox = world.run_pod("counted")
    container = world.create(sandbox)
    world.start(container)
    assert world.failure("ContainerStatus", pb.ContainerStatusRequest(container_id="none"))[0] is (
        grpc.StatusCode.NOT_FOUND
    )
    events = world.client.GetContainerEvents(b"", timeout=LIMIT)
    events.initial_metadata()  # the stream has begun
    after = watched.samples()

    def grown(name: str, **labels: str) -> float:
        key = (f"crishim_{name}", tuple(sorted(labels.items())))
        return after[key] - before.get(key, 0.0)

    assert grown("rpc_duration_seconds_count", rpc="RunPodSandbox") == 1
    assert grown("rpc_duration_seconds_bucket", rpc="RunPodSandbox", le="+Inf") == 1
    assert grown("rpc_own_seconds_total", rpc="RunPodSandbox") > 0
    assert grown("rpc_errors_total", rpc="ContainerStatus", kind="NOT_FOUND") == 1
    assert grown("engine_call_duration_seconds_count", call="create") == 2
    assert grown("engine_call_duration_seconds_sum", call="start") > 0
    assert grown("network_operation_duration_seconds_count", operation="attach") == 1
    assert (grown("sandboxes", state="READY"), grown("containers", state="RUNNING")) == (1, 1)
    assert (grown("rpc_under_way", rpc="GetContainerEvents"), grown("events_listeners")) == (1, 1)
    for name in ("engine_event_stream_reconnects_total", "engine_outages_total", "undo_failures_total"):
        assert after[f"crishim_{name}", ()] == 0
    for name in ("log_read_bytes_total", "log_lost_bytes_total", "log_full_disk_total", "log_files"):
        assert after[f"crishim_{name}", ()] >= 0
    assert after["crishim_event_loop_lag_seconds_bucket", (("le", "+Inf"),)] >= 0
    assert after["crishim_queue_depth", (("queue", "work_waiting_for_a_thread"),)] >= 0
    assert after["process_resident_memory_bytes", ()] > 1 << 20
    events.cancel()
    world.client.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox), timeout=LIMIT)


def test_both_forms_are_told_and_mean_the_same(watched: Watched) -> None:
    status, kind, text = watched.get("/metrics", Accept=OPENMETRICS)
    assert status == 200
    assert kind.startswith(OPENMETRICS)
    names = {family.name for family in parse_openmetrics(text)}
    plain = watched.get("/metrics?name=all")
    assert plain[1].startswith("text/plain; version=0.0.4")
    # Only in the first is `_total` of a counter, and `_info`, left out of the family's name.
    bare = {family.name.removesuffix("_total") for family in parse_text(plain[2])}
    assert {"crishim_rpc_duration_seconds", "crishim_engine_up", "crishim_undo_failures"} <= names & bare


def test_the_page_of_the_documentation_names_all_there_is(watched: Watched) -> None:
    page = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text()
    documented = set(re.findall(r"`(crishim_\w+)`", page))
    told = {family.name for family in parse_text(watched.get("/metrics")[2])}
    ours = {name for name in told if name.startswith("crishim_")}
    # The parser leaves `_total` out of the name of a counter.
    assert {name for name in ours if not documented & {name, f"{name}_total"}} == set()
    assert len(ours) > 25


def test_health_and_readiness(watched: Watched) -> None:
    assert watched.get("/healthz") == (200, "text/plain; charset=utf-8", "ok\n")
    assert watched.get("/readyz")[::2] == (200, "[+]server\n[+]engine\n[+]network\n")
    assert watched.get("/healthz", method="HEAD") == (200, "text/plain; charset=utf-8", "")


def test_without_an_engine_it_is_healthy_and_not_ready(tmp_path: Path) -> None:
    away = f"unix://{tmp_path}/none.sock"
    with serve_endpoint(away, ["--metrics-address", "127.0.0.1:0"], wait_engine=False) as server:
        found = re.search(r"http://([\d.]+):(\d+)/", server.log_path.read_text())
        assert found
        with CRIClient(server.endpoint) as client:
            watched = Watched(World(server, client), found[1], int(found[2]))
            assert watched.get("/healthz")[0] == 200
            status, _, text = watched.get("/readyz")
            assert (status, text.splitlines()[0]) == (503, "[+]server")
            assert text.splitlines()[1].startswith("[-]engine: ")
            samples = watched.samples()
    assert samples["crishim_engine_up", ()] == 0
    assert samples["crishim_engine_call_errors_total", (("call", "connect"), ("kind", "UNAVAILABLE"))] >= 1


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /metrics/ HTTP/1.0\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", 405),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + b"x" * HEAD_LIMIT * 2, 431),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200),
    ],
)
def test_whatever_is_said_is_answered_once(watched: Watched, said: bytes, status: int) -> None:
    if said.startswith(b"\x16"):
        said += b"\r\n\r\n"  # else it waits for the end of a line that never comes
    answer = watched.say(said)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.count(b"HTTP/1.1 ") == 1


def test_clients_that_say_nothing_keep_nobody_out(watched: Watched) -> None:
    silent = [socket.create_connection((watched.host, watched.port), LIMIT) for _ in range(MOST_CLIENTS + 4)]
    try:
        assert watched.get("/healthz")[0] == 200
        for client in silent[:4]:
            assert client.recv(1) == b"", "the oldest go first"
        silent[-1].sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert silent[-1].recv(12) == b"HTTP/1.1 200"
    finally:
        for client in silent:
            client.close()


def test_a_client_that_leaves_in_the_middle_harms_nobody(watched: Watched) -> None:
    for said in (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"):
        with socket.create_connection((watched.host, watched.port), LIMIT) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # a reset, not an end
            client.sendall(said)
    assert watched.get("/healthz")[0] == 200


def flags_in(folder: Path, address: str) -> list[str]:
    flags = ["--listen", f"unix://{folder}/c.sock", "--engine", "simulated:", "--network", "none"]
    for name in ("state", "run"):
        flags += [f"--{name}-dir", str(folder / name)]
    return [*flags, "--metrics-address", address]


def test_an_address_that_others_can_reach_is_refused_unless_it_is_said(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("s")
    refused = serve(*flags_in(folder, "0.0.0.0:0"))
    assert refused.returncode == MISCONFIGURED
    [line] = refused.stderr.splitlines()
    assert line.startswith("crishim: flag --metrics-address: '0.0.0.0:0' is not allowed: it can be reached from other")
    assert line.endswith("or say --metrics-insecure true")
    assert serve(*flags_in(folder, "somewhere")).returncode == MISCONFIGURED
    with serve_endpoint(flags=["--metrics-address", "0.0.0.0:0", "--metrics-insecure", "true"]) as server:
        assert "metrics at http://0.0.0.0:" in server.log_path.read_text()


def test_a_port_in_use_is_told_in_one_line(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("s")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = serve(*flags_in(folder, address))
    assert refused.returncode == FAILED
    assert refused.stderr.splitlines()[-1] == (f"crishim: cannot serve metrics on {address}: Address already in use")
    assert "Traceback" not in refused.stderr
    assert not (folder / "c.sock").exists()


def test_a_server_without_the_port_loads_nothing_for_it() -> None:
    program = (
        "import sys; from crishim import app; from crishim.config import Settings\n"
        "assert app.make_telemetry(Settings()) is None\n"
        "print([m for m in sys.modules if m.startswith(('prometheus_client', 'crishim.telemetry', 'h11', 'wsgiref'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
