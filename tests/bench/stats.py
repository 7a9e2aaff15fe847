"""What statistics and metrics cost: the calls themselves, and a kubelet's polling over time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from crishim.cri.v1 import runtime_pb2 as cri
from tests.bench.figures import Figure, summarize
from tests.bench.serve import Served
from tests.bench.verbs import container, pod

PODS, CONTAINERS = 50, 2
_ROUNDS = 60
_PERIOD = 30
"""Seconds for which a kubelet polls: its statistics are asked each 10 s, its metrics each 15."""


def measure(served: Served, image: str, daemon: int) -> list[Figure]:
    """With 100 running containers in 50 pods. `daemon`: the engine's process."""
    client = served.client
    sandboxes = [_run(served, image, number) for number in range(700_000, 700_000 + PODS)]
    containers, pods = cri.ListContainerStatsRequest(), cri.ListPodSandboxStatsRequest()
    metrics = cri.ListPodSandboxMetricsRequest()
    what = f"{PODS * CONTAINERS} containers"
    figures = [
        _timed(f"ListContainerStats, {what}", lambda: client.ListContainerStats(containers), 15.0),
        _timed(f"ListPodSandboxStats, {what}", lambda: client.ListPodSandboxStats(pods), 15.0),
        _timed(f"ListPodSandboxMetrics, {what}", lambda: client.ListPodSandboxMetrics(metrics), 25.0),
        *_polling(served, daemon),
    ]
    for sandbox in sandboxes:
        client.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
    return figures


def _run(served: Served, image: str, number: int) -> str:
    config = pod(number)
    sandbox = str(served.client.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id)
    for attempt in range(CONTAINERS):
        wanted = container(image)
        wanted.metadata.attempt = attempt
        request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=wanted, sandbox_config=config)
        made = served.client.CreateContainer(request).container_id
        served.client.StartContainer(cri.StartContainerRequest(container_id=made))
    return sandbox


def _polling(served: Served, daemon: int) -> list[Figure]:
    """Percent of a core that each process takes, polled and not."""
    processes = {"crishim": served.pid, "dockerd": daemon}

    def spend(poll: Callable[[int], None]) -> dict[str, float]:
        before = {name: _seconds(pid) for name, pid in processes.items()}
        began = time.monotonic()
        for second in range(_PERIOD):
            poll(second)
            time.sleep(max(0.0, began + second + 1 - time.monotonic()))
        return {name: (_seconds(pid) - before[name]) * 100 / _PERIOD for name, pid in processes.items()}

    idle, polled = spend(lambda second: None), spend(lambda second: _ask(served, second))
    together = sum(polled.values()) - idle["dockerd"]
    note = ", ".join(f"{name} {polled[name]:.2f} % polled, {idle[name]:.2f} % idle" for name in processes)
    return [summarize(f"a kubelet's polling, {PODS} pods", [together], "%", 2.0, note)]


def _ask(served: Served, second: int) -> None:
    """As a kubelet does: both lists each second, statistics and metrics now and then."""
    client = served.client
    client.ListPodSandbox(cri.ListPodSandboxRequest())
    client.ListContainers(cri.ListContainersRequest())
    if second % 10 == 0:
        client.ListContainerStats(cri.ListContainerStatsRequest())
        client.ListPodSandboxStats(cri.ListPodSandboxStatsRequest())
    if second % 15 == 0:
        client.ListPodSandboxMetrics(cri.ListPodSandboxMetricsRequest())


def _seconds(pid: int) -> float:
    """Processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _timed(name: str, call: Callable[[], object], must: float) -> Figure:
    samples = []
    for number in range(_ROUNDS + 5):
        began = time.perf_counter()
        call()
        if number >= 5:  # the first ones look into the writable layers
            samples.append((time.perf_counter() - began) * 1000)
    return summarize(name, samples, must=must)
