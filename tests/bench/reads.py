"""What a client sees of the calls that a kubelet makes every second."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from crishim.cri.v1 import runtime_pb2 as cri
from tests.bench.bare import bare_call
from tests.bench.figures import Figure, summarize
from tests.bench.serve import Served
from tests.bench.verbs import container, pod

_ROUNDS = 300
_WARM = 20


def measure_status(served: Served, image: str, folder: Path) -> list[Figure]:
    """Status calls and ListImages with one pod on a real engine, taken in turns with a call to a server that does
    nothing: what any unary call costs on this machine in this run."""
    client = served.client
    config = pod(900_000)
    sandbox = client.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id
    made = client.CreateContainer(
        cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container(image), sandbox_config=config)
    ).container_id
    client.StartContainer(cri.StartContainerRequest(container_id=made))
    pod_request = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox)
    image_request = cri.ImageStatusRequest(image=cri.ImageSpec(image=image))
    with bare_call(folder) as bare:
        figures = _in_turns(
            ("a call that does nothing, bare grpc.aio", bare, 0.0),
            ("Version", lambda: client.Version(cri.VersionRequest()), 0.0),
            ("PodSandboxStatus", lambda: client.PodSandboxStatus(pod_request), 1.0),
            ("ContainerStatus", lambda: client.ContainerStatus(cri.ContainerStatusRequest(container_id=made)), 0.7),
            ("ImageStatus", lambda: client.ImageStatus(image_request), 0.5),
            ("ListImages", lambda: client.ListImages(cri.ListImagesRequest()), 0.5),
        )
    client.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
    return figures


def measure_lists(served: Served, image: str, sizes: tuple[int, ...]) -> list[Figure]:
    """ListContainers by number of containers; ten to a pod."""
    client, count = served.client, 0
    figures: list[Figure] = []
    everything = cri.ListContainersRequest()
    for size in sizes:
        while count < size:
            config = pod(count)
            sandbox = client.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id
            for number in range(10):
                wanted = container(image)
                wanted.metadata.attempt = number
                request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=wanted, sandbox_config=config)
                made = client.CreateContainer(request).container_id
                client.StartContainer(cri.StartContainerRequest(container_id=made))
                count += 1
        must = 2.0 if size == 500 else 0.0
        figures.append(_timed(f"ListContainers, {size} containers", lambda: client.ListContainers(everything), must))
    return figures


def _timed(name: str, call: Callable[[], object], must: float) -> Figure:
    return _in_turns((name, call, must))[0]


def _in_turns(*calls: tuple[str, Callable[[], object], float]) -> list[Figure]:
    """Each call once, then each again: what disturbs the machine meanwhile disturbs them alike."""
    samples: dict[str, list[float]] = {name: [] for name, _, _ in calls}
    for turn in range(-_WARM, _ROUNDS):
        for name, call, _ in calls:
            began = time.perf_counter()
            call()
            if turn >= 0:
                samples[name].append((time.perf_counter() - began) * 1000)
    return [summarize(name, samples[name], must=must) for name, _, must in calls]
