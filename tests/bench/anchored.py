"""Pods without a process: how long they take, and what they hold, with the embedded network.

``python -m tests.bench.anchored [--rounds N]``, in a test world; part of ``make bench``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from crishim.cri.v1 import runtime_pb2 as cri
from crishim.testing.client import CRIClient
from tests.bench.figures import Figure, summarize
from tests.bench.serve import serve
from tests.bench.verbs import pod
from tests.env import images, processes
from tests.env.engine import TestEngine

AT_ONCE = 10
BATCHES = 5
HELD = 40
"""Pods that are there while memory is looked at."""
WARM_UP = 5
"""Pods that are not counted: the first ones load the image and warm everything up."""
RUN_MUST, AT_ONCE_MUST, END_MUST, PSS_MUST = 20.0, 100.0, 25.0, 0.5


def anchored_pod(number: int) -> cri.PodSandboxConfig:
    """A pod whose containers have their own processes, as a kubelet asks for it."""
    config = pod(number)
    config.linux.security_context.namespace_options.pid = cri.CONTAINER
    return config


def measure(engine: TestEngine, folder: Path, rounds: int) -> list[Figure]:
    """One after the other, several at once, and many that stay."""
    engine.front_asks(folder / "run" / "front.sock")
    try:
        with serve(folder, engine.url, "--network", "embedded", "--carrier", "anchored") as served:
            made, ended = alone(served.client, rounds)
            own = [float(str(c["own_ms"])) for c in served.calls() if c["verb"] == "RunPodSandbox"]
            walls = at_once(served.client)
            before, after = held(served.client, served.pid, engine.pid)
    finally:
        engine.front_asks(None)
    share = f"own share {statistics.median(own[WARM_UP:]):.1f} ms"
    grown = f"PSS of server, engine and all below them {before:.1f} to {after:.1f} MB with {HELD} pods"
    return [
        summarize("RunPodSandbox, anchored, embedded network", made, must=RUN_MUST, note=share),
        summarize("StopPodSandbox and RemovePodSandbox, anchored, no containers", ended, must=END_MUST),
        summarize(f"RunPodSandbox, anchored, {AT_ONCE} at once, wall", walls, must=AT_ONCE_MUST),
        summarize("memory per anchored pod", [(after - before) / HELD], unit="MB", must=PSS_MUST, note=grown),
    ]


def alone(client: CRIClient, rounds: int) -> tuple[list[float], list[float]]:
    """Pods one after the other: milliseconds of each RunPodSandbox, and of each StopPodSandbox and RemovePodSandbox."""
    made, ended = [], []
    for number in range(rounds + WARM_UP):
        began = time.perf_counter()
        sandbox = _run(client, number)
        made.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        _end(client, sandbox)
        ended.append((time.perf_counter() - began) * 1000)
    return made[WARM_UP:], ended[WARM_UP:]


def at_once(client: CRIClient) -> list[float]:
    """Milliseconds that each of `BATCHES` batches of `AT_ONCE` pods took."""
    walls = []
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for batch in range(BATCHES + 1):
            began = time.perf_counter()
            pods = list(threads.map(lambda n, b=batch: _run(client, 1000 + b * AT_ONCE + n), range(AT_ONCE)))
            walls.append((time.perf_counter() - began) * 1000)
            list(threads.map(lambda sandbox: _end(client, sandbox), pods))
    return walls[1:]


def held(client: CRIClient, *roots: int) -> tuple[float, float]:
    """MB of these processes, all below them, and shims: without pods, and with `HELD` of them."""
    before = _pss(*roots)
    pods = [_run(client, 10_000 + number) for number in range(HELD)]
    after = _pss(*roots)
    for sandbox in pods:
        _end(client, sandbox)
    return before, after


def _run(client: CRIClient, number: int) -> str:
    request = cri.RunPodSandboxRequest(config=anchored_pod(number))
    return str(client.RunPodSandbox(request).pod_sandbox_id)


def _end(client: CRIClient, sandbox: str) -> None:
    client.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))
    client.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))


def _pss(*roots: int) -> float:
    """MB of these processes and all that run below them; of shims, too, which belong to nobody."""
    pids = {pid for root in roots for pid in (root, *processes.descendants(root))}
    pids |= {pid for pid in processes.pids() if "containerd-shim" in processes.command_line(pid)}
    pids |= {kin for pid in tuple(pids) for kin in processes.descendants(pid)}
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def main() -> None:
    """Print the figures of this module alone."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.anchored")
    parser.add_argument("--rounds", type=int, default=50)
    chosen = parser.parse_args()
    binaries = os.environ.get("CRISHIM_TEST_ENGINE")
    with (
        tempfile.TemporaryDirectory() as name,
        TestEngine(Path(name) / "engine", Path(binaries) if binaries else None) as engine,
    ):
        images.busybox().load(engine.api, images.BUSYBOX_REF)
        for figure in measure(engine, Path(name) / "a", chosen.rounds):
            print(f"{figure.name}: {figure.median} {figure.unit}, p90 {figure.p90}, must {figure.must}; {figure.note}")


if __name__ == "__main__":
    main()
