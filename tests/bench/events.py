"""How long after the engine's own event a listener of GetContainerEvents is told that a container has ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

from crishim.cri.v1 import runtime_pb2 as cri
from crishim.engine.docker import DockerEngine
from crishim.testing.client import AsyncCRIClient
from tests.bench.figures import Figure, summarize
from tests.bench.verbs import container, pod

_LIMIT = 30.0
_LIFE = "0.2"
"""Seconds that a container runs: it has been told of as started by then."""


def measure(endpoint: str, engine_url: str, image: str, folder: Path, rounds: int = 25) -> list[Figure]:
    """Containers with a log that end by themselves, one after the other; `folder` takes the logs."""
    samples = asyncio.run(_measure(endpoint, engine_url, image, folder, rounds))
    return [summarize("a container's end, from the engine's event to a listener", samples, must=20.0)]


async def _measure(endpoint: str, engine_url: str, image: str, folder: Path, rounds: int) -> list[float]:
    engine = DockerEngine(engine_url)
    await engine.connect()
    config = pod(800_000)
    config.log_directory = str(folder)
    samples = []
    async with AsyncCRIClient(endpoint) as client, engine.events() as events:
        listening = client.GetContainerEvents(cri.GetEventsRequest())
        await listening.initial_metadata()
        sandbox = (await client.RunPodSandbox(cri.RunPodSandboxRequest(config=config))).pod_sandbox_id
        for attempt in range(rounds + 2):
            wanted = container(image)
            wanted.metadata.attempt = attempt
            wanted.log_path = f"{attempt}.log"
            wanted.command[:] = ["sleep", _LIFE]
            request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=wanted, sandbox_config=config)
            made = (await client.CreateContainer(request)).container_id
            ends = asyncio.gather(_engines_end(events, made), _listeners_end(listening, made))
            await client.StartContainer(cri.StartContainerRequest(container_id=made))
            async with asyncio.timeout(_LIMIT):
                engines, ours = await ends
            if attempt >= 2:  # the first ones warm both up
                samples.append((ours - engines) * 1000)
        listening.cancel()
        await client.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
    await engine.close()
    return samples


async def _engines_end(events: AsyncIterator[object], made: str) -> float:
    async for event in events:
        if getattr(event, "id", "") == made and getattr(event, "action", "") == "die":
            return time.monotonic()
    raise RuntimeError("the engine's event stream ended")


async def _listeners_end(listening: AsyncIterator[cri.ContainerEventResponse], made: str) -> float:
    async for event in listening:
        if event.container_id == made and event.container_event_type == cri.CONTAINER_STOPPED_EVENT:
            return time.monotonic()
    raise RuntimeError("the stream of events ended")
