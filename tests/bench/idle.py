"""What an idle node costs: 50 pods that do nothing, and a client that asks as often as a kubelet does.

The rates are a kubelet's (1.37), counted on an idle node: its lists, status and image calls, and the status of each
running container every ten seconds.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import grpc

from crishim.cri.v1 import runtime_pb2 as cri
from tests.bench.cpu import account
from tests.bench.figures import Figure, summarize
from tests.bench.serve import Served
from tests.bench.verbs import container, pod

PODS = 50
WINDOWS = 6
"""Samples: the time is cut into so many."""
RATES: Mapping[str, float] = {
    "ListContainers": 104,
    "ListPodSandbox": 97,
    "Status": 12,
    "Version": 14,
    "ImageFsInfo": 6,
    "ListContainerStats": 6,
    "ListImages": 2,
}
"""Calls a minute."""
STATUS_RATE = 6.0
"""ContainerStatus calls a minute for each running container."""
_REQUESTS: Mapping[str, Callable[[], object]] = {
    "ListContainers": cri.ListContainersRequest,
    "ListPodSandbox": cri.ListPodSandboxRequest,
    "Status": cri.StatusRequest,
    "Version": cri.VersionRequest,
    "ImageFsInfo": cri.ImageFsInfoRequest,
    "ListContainerStats": cri.ListContainerStatsRequest,
    "ListImages": cri.ListImagesRequest,
}


def schedule(containers: list[str], seconds: float) -> Iterator[tuple[float, str, str]]:
    """All calls of ``seconds`` in order: (seconds from the start, RPC, container or ``""``), each evenly spread."""
    rates = [(rate, name, "") for name, rate in RATES.items()]
    rates += [(STATUS_RATE, "ContainerStatus", made) for made in containers]
    # Each begins at another moment of its own interval, as nothing in a kubelet makes them meet.
    due = [(60 / rate * number / len(rates), rate, name, made) for number, (rate, name, made) in enumerate(rates)]
    heapq.heapify(due)
    while due and due[0][0] < seconds:
        at, rate, name, made = due[0]
        yield at, name, made
        heapq.heapreplace(due, (at + 60 / rate, rate, name, made))


def measure(served: Served, engine_pid: int, image: str, seconds: float) -> list[Figure]:
    """Processor time by the minute, of crishim and of the engine.

    A window goes by first that does not count: both are still at work on what was started.
    """
    window = seconds / WINDOWS
    containers = [_run(served, image, number) for number in range(PODS)]
    with account("crishim", served.pid) as ours, account("engine", engine_pid) as theirs:
        called: Counter[str] = Counter()
        refused: set[str] = set()
        readings = [(0.0, ours.used(), theirs.used())]
        began = time.monotonic()
        for at, name, made in schedule(containers, seconds + window):
            while (due := window * len(readings)) <= at:
                _sleep_until(began + due)
                readings.append((time.monotonic() - began, ours.used(), theirs.used()))
            _sleep_until(began + at)
            called[name] += 1
            if not _call(served, name, made):
                refused.add(name)
        _sleep_until(began + seconds + window)
        readings.append((time.monotonic() - began, ours.used(), theirs.used()))
    note = f"{PODS} pods, {sum(called.values()) * 60 / (seconds + window):.0f} calls a minute"
    note += f"; not served yet: {', '.join(sorted(refused))}" if refused else ""
    figures = []
    for index, who in ((1, "crishim"), (2, "the engine")):
        samples = [
            (after[index] - before[index]) * 60 / (after[0] - before[0])
            for before, after in itertools.pairwise(readings[1:])
        ]
        figures.append(summarize(f"an idle minute: CPU of {who}", samples, note=note))
    for sandbox in served.client.ListPodSandbox(cri.ListPodSandboxRequest()).items:
        served.client.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id))
    return figures


def _run(served: Served, image: str, number: int) -> str:
    """A pod with a running container; the container's id."""
    config = pod(700_000 + number)
    sandbox = served.client.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container(image), sandbox_config=config)
    made = str(served.client.CreateContainer(request).container_id)
    served.client.StartContainer(cri.StartContainerRequest(container_id=made))
    return made


def _call(served: Served, name: str, made: str) -> bool:
    """One call; whether the server serves it.  Raises grpc.RpcError when it fails."""
    request = cri.ContainerStatusRequest(container_id=made) if made else _REQUESTS[name]()
    try:
        getattr(served.client, name)(request)
    except grpc.RpcError as error:
        if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.UNIMPLEMENTED:
            return False
        raise
    return True


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
