"""Exec's throughput: through crishim by client-go, and by `docker exec -i` on the same engine, one after the other.

``python -m tests.bench.streaming [--mib N] [--rounds N]``, in a test world.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from crishim.cri.v1 import runtime_pb2 as cri
from tests.bench.serve import Served, serve
from tests.env import images
from tests.env.engine import TestEngine
from tests.streaming_client.build import client_path

MUST = {"spdy": 0.65, "websocket": 0.45}
"""Of the throughput of docker's own client."""
STATUS_MUST = 20.0
"""Milliseconds that a status may take beside a stream."""
WAYS = ("output", "input", "echo")


def script(way: str, size: int) -> str:
    """What the container runs."""
    return {"output": f"head -c {size} /dev/zero", "input": "cat >/dev/null", "echo": "cat"}[way]


def cpu_of(pid: int) -> float:
    """Seconds of processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def move(command: Sequence[str], way: str, size: int, source: Path) -> float:
    """Run a client with its streams to and from files; MB/s. Raises RuntimeError when not all bytes came."""
    with (
        source.open("rb") as given,
        subprocess.Popen(["wc", "-c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as counter,
    ):
        began = time.monotonic()
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL if way == "output" else given,
            stdout=counter.stdin,
            stderr=subprocess.PIPE,
            check=False,
        )
        took = time.monotonic() - began
        counted = int(counter.communicate()[0])
    if done.returncode or counted != (0 if way == "input" else size):
        raise RuntimeError(f"{way}: status {done.returncode}, {counted} bytes: {done.stderr.decode()[-300:]}")
    return size / took / 1e6


def make_container(served: Served) -> str:
    """A container that sleeps."""
    metadata = cri.PodSandboxMetadata(name="bench", uid="b", namespace="default")
    pod = cri.PodSandboxConfig(metadata=metadata, log_directory="/tmp/crishim-bench")
    sandbox = served.client.RunPodSandbox(cri.RunPodSandboxRequest(config=pod)).pod_sandbox_id
    config = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="c"),
        image=cri.ImageSpec(image=images.BUSYBOX_REF),
        command=["sleep", "100000"],
        log_path="c.log",
    )
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config, sandbox_config=pod)
    container = str(served.client.CreateContainer(request).container_id)
    served.client.StartContainer(cri.StartContainerRequest(container_id=container))
    return container


def through_crishim(served: Served, container: str, transport: str, way: str, size: int, source: Path) -> float:
    """One exec by client-go."""
    asked = cri.ExecRequest(
        container_id=container, cmd=["sh", "-c", script(way, size)], stdin=way != "output", stdout=True, stderr=True
    )
    url = served.client.Exec(asked).url
    flags = ["-transport", transport, *(["-stdin"] if way != "output" else [])]
    return move([str(client_path()), *flags, "process", url], way, size, source)


def status_while_busy(served: Served, container: str, transport: str, size: int, source: Path) -> float:
    """The 99th percentile of ContainerStatus, in milliseconds, while an echo runs at full speed."""
    took: list[float] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set() or len(took) < 100:
            began = time.perf_counter()
            served.client.ContainerStatus(cri.ContainerStatusRequest(container_id=container))
            took.append((time.perf_counter() - began) * 1000)
            time.sleep(0.002)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        through_crishim(served, container, transport, "echo", size, source)
    finally:
        over.set()
        asking.join()
    return sorted(took)[int(len(took) * 0.99)]


def main() -> int:
    """Measure and print; exit status 1 if a demanded ratio was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.streaming")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    size, missed = chosen.mib << 20, False
    docker = shutil.which("docker") or sys.exit("this needs docker's own client")
    with tempfile.TemporaryDirectory() as name, TestEngine(Path(name) / "engine") as engine:
        source = Path(name) / "source"
        with source.open("wb") as file:
            file.truncate(size)
        images.busybox().load(engine.api, images.BUSYBOX_REF)
        with serve(Path(name) / "a", engine.url, "--network", "none") as served:
            container = make_container(served)
            for way in WAYS:
                rates: dict[str, list[float]] = {"docker": [], "spdy": [], "websocket": []}
                busy: dict[str, float] = {}
                for _ in range(chosen.rounds):
                    command = [docker, "-H", engine.url, "exec", "-i", container, "sh", "-c", script(way, size)]
                    rates["docker"].append(move(command, way, size, source))
                    for transport in MUST:
                        before = cpu_of(served.pid)
                        client = resource.getrusage(resource.RUSAGE_CHILDREN)
                        rates[transport].append(through_crishim(served, container, transport, way, size, source))
                        after = resource.getrusage(resource.RUSAGE_CHILDREN)
                        busy[transport] = cpu_of(served.pid) - before
                        busy[f"{transport} client"] = (
                            after.ru_utime + after.ru_stime - client.ru_utime - client.ru_stime
                        )
                own = statistics.median(rates["docker"])
                for transport, must in MUST.items():
                    rate = statistics.median(rates[transport])
                    missed |= rate < must * own
                    print(
                        f"{way:7}{transport:10}{rate:7.0f} MB/s, docker {own:5.0f} MB/s, ratio {rate / own:.2f} "
                        f"(must {must}), server {busy[transport]:.2f} s, client {busy[f'{transport} client']:.2f} s",
                        flush=True,
                    )
            for transport in MUST:
                p99 = status_while_busy(served, container, transport, size, source)
                missed |= p99 > STATUS_MUST
                print(f"ContainerStatus beside an echo over {transport}: p99 {p99:.1f} ms (must {STATUS_MUST:.0f})")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
