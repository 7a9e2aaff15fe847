"""Our own share of each verb, and the difference to the raw engine, interleaved in one run."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from crishim.checkpoint.record import Phase, SandboxRecord
from crishim.cri.v1 import runtime_pb2 as cri
from crishim.engine.docker import DockerEngine
from crishim.engine.values import ContainerSpec, EngineFacts
from crishim.images.embedded import REPOSITORY
from crishim.model import ContainerConfig, PodSandboxConfig
from crishim.rpc.decode import decode
from crishim.runtime.core import RuntimeSettings
from crishim.runtime.host import detect
from crishim.runtime.objects import Sandbox
from crishim.runtime.spec.container import make_container_spec
from crishim.runtime.spec.sandbox import make_sandbox_spec
from tests.bench.figures import Figure, summarize
from tests.bench.serve import Served

MUST = {
    "RunPodSandbox": 5.0,
    "CreateContainer": 2.0,
    "StartContainer": 2.0,
    "StopContainer": 2.0,
    "RemoveContainer": 2.0,
    "StopPodSandbox": 2.0,
    "RemovePodSandbox": 2.0,
}
"""Milliseconds of our own that each verb may take, waiting for the engine not counted (network none)."""


EMBEDDED_MUST = {"RunPodSandbox": 10.0, "StopPodSandbox": 10.0}
"""The same with the embedded network, attach and detach included."""


def pod(number: int) -> cri.PodSandboxConfig:
    """A pod as a kubelet asks for it, without a log folder."""
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=f"bench-{number}", namespace="default", uid=f"bench-uid-{number}"),
        hostname="bench",
        labels={f"label-{i}": "value" for i in range(5)},
        dns_config=cri.DNSConfig(servers=["192.0.2.53"], searches=["bench.example"]),
        linux=cri.LinuxPodSandboxConfig(),
    )


def container(image: str) -> cri.ContainerConfig:
    """An ordinary container of a pod."""
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="main"),
        image=cri.ImageSpec(image=image),
        command=["sleep", "1000"],
        envs=[cri.KeyValue(key=f"VARIABLE_{i}", value=b"value") for i in range(10)],
        linux=cri.LinuxContainerConfig(
            resources=cri.LinuxContainerResources(cpu_shares=2, memory_limit_in_bytes=64 << 20),
            security_context=cri.LinuxContainerSecurityContext(
                seccomp=cri.SecurityProfile(profile_type=cri.SecurityProfile.RuntimeDefault)
            ),
        ),
    )


def measure(served: Served, socket: str, image: str, rounds: int) -> list[Figure]:
    """Rounds of a pod's life through crishim, each followed by the same through the raw engine client."""
    raw = asyncio.run(_both(served, socket, image, rounds))
    figures = []
    seen: dict[str, list[float]] = defaultdict(list)
    shares: dict[str, list[float]] = defaultdict(list)
    for call in served.calls():
        verb = str(call["verb"])
        if verb in MUST:
            seen[verb].append(float(str(call["ms"])))
            shares[verb].append(float(str(call["own_ms"])))
    for verb, must in MUST.items():
        # The first rounds load the sandbox image and warm the engine up.
        whole = summarize("", seen[verb][5:])
        engine = summarize("", raw[verb][5:])
        note = f"whole call {whole.median} ms, raw engine {engine.median} ms ({engine.samples} samples), "
        note += f"difference {whole.median - engine.median:.3f} ms"
        figures.append(summarize(f"{verb}: own share", shares[verb][5:], must=must, note=note))
    return figures


def measure_embedded(served: Served, image: str, rounds: int) -> list[Figure]:
    """Rounds of a pod's life on the embedded network."""
    for number in range(rounds):
        live_through(served, image, number)
    shares: dict[str, list[float]] = defaultdict(list)
    for call in served.calls():
        if (verb := str(call["verb"])) in EMBEDDED_MUST:
            shares[verb].append(float(str(call["own_ms"])))
    return [
        summarize(f"{verb}: own share with the embedded network", shares[verb][5:], must=must)
        for verb, must in EMBEDDED_MUST.items()
    ]


async def _both(served: Served, socket: str, image: str, rounds: int) -> dict[str, list[float]]:
    engine = DockerEngine(f"unix://{socket}")
    await engine.connect()
    times: dict[str, list[float]] = defaultdict(list)
    try:
        for number in range(rounds):
            await asyncio.to_thread(live_through, served, image, number)
            await _theirs(engine, image, number, times)
    finally:
        await engine.close()
    return times


async def raw_life(socket: str, image: str, number: int) -> None:
    """One pod's life by the engine's calls alone, without crishim."""
    engine = DockerEngine(f"unix://{socket}")
    await engine.connect()
    try:
        await _theirs(engine, image, number, defaultdict(list))
    finally:
        await engine.close()


def live_through(served: Served, image: str, number: int) -> None:
    client, config = served.client, pod(number)
    sandbox = client.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container(image), sandbox_config=config)
    made = client.CreateContainer(request).container_id
    client.StartContainer(cri.StartContainerRequest(container_id=made))
    client.StopContainer(cri.StopContainerRequest(container_id=made))
    client.RemoveContainer(cri.RemoveContainerRequest(container_id=made))
    client.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))
    client.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))


class _Clock:
    def __init__(self, times: dict[str, list[float]]) -> None:
        self._times = times

    def lap(self, verb: str, began: float) -> None:
        self._times[verb].append((time.perf_counter() - began) * 1000)


async def _theirs(engine: DockerEngine, image: str, number: int, times: dict[str, list[float]]) -> None:
    """The calls that the engine cannot be spared, with the very containers that crishim makes, by the same client."""
    clock = _Clock(times)
    spec = await _raw_sandbox(engine, number)
    began = time.perf_counter()
    sandbox = await engine.create(f"raw-{number}", spec)
    await engine.start(sandbox)
    clock.lap("RunPodSandbox", began)
    spec = await _raw_container(engine, image, sandbox, number)
    began = time.perf_counter()
    made = await engine.create(f"raw-{number}-main", spec)
    clock.lap("CreateContainer", began)
    for verb, work in _life(engine, made, sandbox):
        began = time.perf_counter()
        await work
        clock.lap(verb, began)


def _life(engine: DockerEngine, made: str, sandbox: str) -> Iterator[tuple[str, asyncio.Future[None]]]:
    async def end(container_id: str) -> None:
        await engine.kill(container_id, "SIGKILL")
        await engine.wait(container_id)

    yield "StartContainer", asyncio.ensure_future(engine.start(made))
    yield "StopContainer", asyncio.ensure_future(end(made))
    yield "RemoveContainer", asyncio.ensure_future(engine.remove(made))
    yield "StopPodSandbox", asyncio.ensure_future(end(sandbox))
    yield "RemovePodSandbox", asyncio.ensure_future(engine.remove(sandbox))


async def _raw_sandbox(engine: DockerEngine, number: int) -> ContainerSpec:
    facts = _facts(engine)
    known = [i.id for i in await engine.list_images() if any(t.rpartition(":")[0] == REPOSITORY for t in i.tags)]
    if not known:
        raise RuntimeError("the engine has no sandbox image yet: run a pod first")
    config = decode(pod(number), PodSandboxConfig)
    spec = make_sandbox_spec(
        config, "", image=known[0], facts=facts, host=detect(facts.daemon_pid), settings=RuntimeSettings()
    )
    return _nobodys(spec)


async def _raw_container(engine: DockerEngine, image: str, sandbox_id: str, number: int) -> ContainerSpec:
    facts = _facts(engine)
    record = SandboxRecord(id=sandbox_id, phase=Phase.READY, config=decode(pod(number), PodSandboxConfig), created_at=1)
    spec = make_container_spec(
        decode(container(image), ContainerConfig),
        Sandbox(record=record, live=None),
        image=(await engine.inspect_image(image)).id,
        log_path="",
        target_in_pod=lambda _: "",
        facts=facts,
        host=detect(facts.daemon_pid),
        settings=RuntimeSettings(),
    )
    return _nobodys(spec)


def _facts(engine: DockerEngine) -> EngineFacts:
    assert engine.facts is not None, "it is connected"
    return engine.facts


def _nobodys(spec: ContainerSpec) -> ContainerSpec:
    """The same by labels of another name: a crishim on this engine is not to take it for a pod's."""
    return replace(spec, labels={f"raw-{key}": value for key, value in spec.labels.items()})
