"""What a client sees of the calls that a kubelet makes every second."""

from __future__ import annotations

import time
from collections.abc import Callable

from crishim.cri.v1 import runtime_pb2 as cri
from tests.bench.figures import Figure, summarize
from tests.bench.serve import Served
from tests.bench.verbs import container, pod

_ROUNDS = 300


def measure_status(served: Served, image: str) -> list[Figure]:
    """Status calls and ListImages with one pod on a real engine; before them Version, which needs nothing but a call:
    what any unary call costs on this machine in this run."""
    client = served.client
    config = pod(900_000)
    sandbox = client.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id
    made = client.CreateContainer(
        cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container(image), sandbox_config=config)
    ).container_id
    client.StartContainer(cri.StartContainerRequest(container_id=made))
    pod_request = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox)
    image_request = cri.ImageStatusRequest(image=cri.ImageSpec(image=image))
    figures = [
        _timed("Version", lambda: client.Version(cri.VersionRequest()), 0.0),
        _timed("PodSandboxStatus", lambda: client.PodSandboxStatus(pod_request), 1.0),
        _timed("ContainerStatus", lambda: client.ContainerStatus(cri.ContainerStatusRequest(container_id=made)), 0.7),
        _timed("ImageStatus", lambda: client.ImageStatus(image_request), 0.5),
        _timed("ListImages", lambda: client.ListImages(cri.ListImagesRequest()), 0.5),
    ]
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
    for _ in range(20):
        call()
    samples = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        call()
        samples.append((time.perf_counter() - began) * 1000)
    return summarize(name, samples, must=must)
