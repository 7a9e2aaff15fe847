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
from tests.bench.figures import Figure, summarize
from tests.bench.serve import Served, serve
from tests.bench.verbs import pod
from tests.env import images, processes
from tests.env.engine import TestEngine

AT_ONCE = 10
BATCHES = 5
HELD = 40
"""Pods that are there while memory is looked at."""
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
            figures = _alone(served, rounds)
            figures.append(_at_once(served))
            figures.append(_held(served, engine.pid))
            return figures
    finally:
        engine.front_asks(None)


def _run(served: Served, number: int) -> str:
    request = cri.RunPodSandboxRequest(config=anchored_pod(number))
    return str(served.client.RunPodSandbox(request).pod_sandbox_id)


def _end(served: Served, sandbox: str) -> None:
    served.client.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))
    served.client.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))


def _alone(served: Served, rounds: int) -> list[Figure]:
    made, ended = [], []
    for number in range(rounds + 5):  # the first ones load the image and warm everything up
        began = time.perf_counter()
        sandbox = _run(served, number)
        made.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        _end(served, sandbox)
        ended.append((time.perf_counter() - began) * 1000)
    own = [float(str(c["own_ms"])) for c in served.calls() if c["verb"] == "RunPodSandbox"]
    note = f"own share {statistics.median(own[5:]):.1f} ms"
    return [
        summarize("RunPodSandbox, anchored, embedded network", made[5:], must=RUN_MUST, note=note),
        summarize("StopPodSandbox and RemovePodSandbox, anchored, no containers", ended[5:], must=END_MUST),
    ]


def _at_once(served: Served) -> Figure:
    walls = []
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for batch in range(BATCHES + 1):
            began = time.perf_counter()
            pods = list(threads.map(lambda n, b=batch: _run(served, 1000 + b * AT_ONCE + n), range(AT_ONCE)))
            walls.append((time.perf_counter() - began) * 1000)
            list(threads.map(lambda sandbox: _end(served, sandbox), pods))
    return summarize(f"RunPodSandbox, anchored, {AT_ONCE} at once, wall", walls[1:], must=AT_ONCE_MUST)


def _held(served: Served, daemon: int) -> Figure:
    """What all processes of engine and server have more with the pods than without."""
    before = _pss(served.pid, daemon)
    pods = [_run(served, 10_000 + number) for number in range(HELD)]
    after = _pss(served.pid, daemon)
    for sandbox in pods:
        _end(served, sandbox)
    note = f"PSS of server, engine and all below them {before:.1f} to {after:.1f} MB with {HELD} pods"
    return summarize("memory per anchored pod", [(after - before) / HELD], unit="MB", must=PSS_MUST, note=note)


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
