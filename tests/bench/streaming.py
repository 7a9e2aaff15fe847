"""Exec's throughput: through crishim by client-go, and by `docker exec -i` on the same engine, one after the other.

``python -m tests.bench.streaming [--mib N] [--rounds N]``, in a test world, measures all that streams alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc

from crishim.cri.v1 import runtime_pb2 as cri
from tests.bench import port_forward, report, sessions
from tests.bench.cpu import account
from tests.bench.figures import Figure, summarize
from tests.bench.serve import Served, serve
from tests.bench.verbs import pod
from tests.conformance import tools
from tests.conformance.tools import ToolsMissingError
from tests.env import images
from tests.env.engine import TestEngine
from tests.streaming_client.build import client_path

LEAST = {"spdy": 0.65, "websocket": 0.45}
"""Of the throughput of docker's own client."""
STATUS_MUST = 20.0
"""Milliseconds that a status may take beside a stream."""
WAYS = ("output", "input", "echo")
_EXECS_LIMIT = 120.0


def measure(served: Served, engine: TestEngine, folder: Path, mib: int = 256, rounds: int = 5) -> list[Figure]:
    """All that streams.  Raises ToolsMissingError when docker's client, client-go's or crictl is not here."""
    docker = docker_path()
    client_path()
    tools.crictl_path()
    container, sandbox = make_container(served)
    with account("crishim", served.pid) as ours, account("engine", engine.pid) as theirs:
        bench = Throughput(served, [docker, "-H", engine.url], container, folder, mib << 20)
        figures = [figure for way in WAYS for figure in bench.measure(way, rounds, (ours.used, theirs.used))]
        figures += [bench.status_beside(transport) for transport in LEAST]
        figures += port_forward.measure(served, engine, sandbox, mib << 20, rounds)
        figures += sessions.measure(served, [docker, "-H", engine.url], container, folder)
    _wait_for_execs(engine, container)
    _remove(served, sandbox)
    return figures


def _wait_for_execs(engine: TestEngine, container: str) -> None:
    """Until the engine has dealt with the ends of all execs, each of which takes it a tenth of a second.

    Before that, it neither kills nor shows the container.
    """
    end = time.monotonic() + _EXECS_LIMIT
    while time.monotonic() < end:
        with contextlib.suppress(TimeoutError):
            if not engine.api.call("GET", f"/containers/{container}/json")["ExecIDs"]:
                return
        time.sleep(0.5)


def _remove(served: Served, sandbox: str) -> None:
    """Again, as a kubelet does: a busy engine may need longer for a kill than one call waits."""
    request = cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox)
    for left in (2, 1, 0):
        try:
            served.client.RemovePodSandbox(request)
        except grpc.RpcError as error:
            if not left or not isinstance(error, grpc.Call) or error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
        else:
            return


def docker_path() -> str:
    """Docker's own client.  Raises ToolsMissingError."""
    if (found := shutil.which("docker")) is None:
        raise ToolsMissingError("docker's own client is not installed")
    return found


def make_container(served: Served) -> tuple[str, str]:
    """A container that sleeps, and its sandbox."""
    config = pod(600_000)
    sandbox = str(served.client.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id)
    wanted = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="c"),
        image=cri.ImageSpec(image=images.BUSYBOX_REF),
        command=["sleep", "100000"],
    )
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=wanted, sandbox_config=config)
    container = str(served.client.CreateContainer(request).container_id)
    served.client.StartContainer(cri.StartContainerRequest(container_id=container))
    return container, sandbox


class Throughput:
    """One container, in and out of which bytes are moved."""

    def __init__(self, served: Served, docker: Sequence[str], container: str, folder: Path, size: int) -> None:
        """`docker`: the beginning of its client's command line; `folder` is made, and holds the input."""
        self._served = served
        self._docker = docker
        self._container = container
        self._size = size
        self._source = folder / "source"
        folder.mkdir(parents=True, exist_ok=True)
        with self._source.open("wb") as file:
            file.truncate(size)

    def measure(self, way: str, rounds: int, used: Sequence[Callable[[], float]]) -> Iterator[Figure]:
        """Rounds of all three clients.  `used`: milliseconds of processor time of crishim and the engine so far."""
        ratios: dict[str, list[float]] = defaultdict(list)
        rates: dict[str, list[float]] = defaultdict(list)
        spent: dict[str, list[tuple[float, ...]]] = defaultdict(list)
        docker = [*self._docker, "exec", "-i", self._container, "sh", "-c", self._script(way)]
        for _ in range(rounds):
            for client in ("docker", *LEAST):
                before = [one() for one in used]
                command = docker if client == "docker" else self._command(client, way)
                rate, itself = self._move(command, way)
                rates[client].append(rate)
                spent[client].append((*(one() - b for one, b in zip(used, before, strict=True)), itself))
                if client != "docker":
                    ratios[client].append(rate / rates["docker"][-1])
        for transport, least in LEAST.items():
            note = "; ".join(_costs(client, rates[client], spent[client]) for client in (transport, "docker"))
            name = f"exec {way} over {transport} against docker exec -i"
            yield summarize(name, ratios[transport], unit="×", least=least, note=note)

    def _script(self, way: str) -> str:
        return {"output": f"head -c {self._size} /dev/zero", "input": "cat >/dev/null", "echo": "cat"}[way]

    def _command(self, transport: str, way: str) -> list[str]:
        given = way != "output"
        command = ["sh", "-c", self._script(way)]
        request = cri.ExecRequest(container_id=self._container, cmd=command, stdin=given, stdout=True, stderr=True)
        flags = ["-transport", transport, *(["-stdin"] if given else [])]
        return [str(client_path()), *flags, "process", self._served.client.Exec(request).url]

    def _move(self, command: Sequence[str], way: str) -> tuple[float, float]:
        """Run a client with its streams to and from files; MB/s, and its milliseconds of processor time.

        Raises RuntimeError when not all bytes came.
        """
        with (
            self._source.open("rb") as given,
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(["wc", "-c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as counter,
        ):
            began = time.monotonic()
            stdin = subprocess.DEVNULL if way == "output" else given
            client = subprocess.Popen(command, stdin=stdin, stdout=counter.stdin, stderr=errors)
            _, status, usage = os.wait4(client.pid, 0)
            took = time.monotonic() - began
            client.returncode = os.waitstatus_to_exitcode(status)
            counted = int(counter.communicate()[0])
            errors.seek(0)
            if client.returncode or counted != (0 if way == "input" else self._size):
                raise RuntimeError(f"{way}: status {client.returncode}, {counted} bytes: {errors.read()[-300:]!r}")
        return self._size / took / 1e6, (usage.ru_utime + usage.ru_stime) * 1000

    def status_beside(self, transport: str) -> Figure:
        """The 99th percentile of ContainerStatus while an echo runs at full speed."""
        with asking(self._served, self._container) as took:
            self._move(self._command(transport, "echo"), "echo")
        p99 = sorted(took)[int(len(took) * 0.99)]
        note = f"of {len(took)} calls; their median {statistics.median(took):.1f} ms"
        return summarize(f"ContainerStatus beside an echo over {transport}, p99", [p99], must=STATUS_MUST, note=note)


@contextmanager
def asking(served: Served, container: str) -> Iterator[list[float]]:
    """Statuses are asked one after the other meanwhile; afterwards how many milliseconds each took."""
    took: list[float] = []
    over = threading.Event()
    request = cri.ContainerStatusRequest(container_id=container)

    def ask() -> None:
        while not over.is_set() or len(took) < 100:
            began = time.perf_counter()
            served.client.ContainerStatus(request)
            took.append((time.perf_counter() - began) * 1000)
            time.sleep(0.002)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield took
    finally:
        over.set()
        thread.join()


def _costs(client: str, rates: Sequence[float], spent: Sequence[tuple[float, ...]]) -> str:
    crishim, engine, itself = (statistics.median(one) / 1000 for one in zip(*spent, strict=True))
    own = "" if client == "docker" else f"crishim {crishim:.2f} s, "
    return f"{client} {statistics.median(rates):.0f} MB/s (CPU: {own}engine {engine:.2f} s, client {itself:.2f} s)"


def main() -> int:
    """Measure and print; exit status 1 if a demand was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.streaming")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, TestEngine(Path(name) / "engine") as engine:
        images.busybox().load(engine.api, images.BUSYBOX_REF)
        with serve(Path(name) / "a", engine.url, "--network", "none") as served:
            try:
                figures = measure(served, engine, Path(name) / "s", chosen.mib, chosen.rounds)
            except ToolsMissingError as error:
                sys.exit(f"not run: {error}")
    print("\n".join(report.rows(figures)))
    return int(any(figure.missed for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
