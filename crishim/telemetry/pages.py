"""What is answered under which path."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from crishim.telemetry.collector import collect
from crishim.telemetry.page import Page, refusal
from crishim.telemetry.sources import Sources


class _Collected:
    """Metrics that were collected already, in the form that an encoder wants."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


class Pages:
    """`/metrics`, `/healthz` and `/readyz`."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._process = ProcessCollector(registry=CollectorRegistry())

    async def get(self, path: str, accept: str) -> Page:
        """The page at a path; `accept`: the header of that name, which may want OpenMetrics."""
        if path == "/metrics":
            return await self._metrics(accept)
        if path == "/healthz":
            return Page(200, b"ok\n")  # answered by the very loop that serves CRI
        if path == "/readyz":
            return self._ready()
        return refusal(404, "there is /metrics, /healthz and /readyz")

    async def _metrics(self, accept: str) -> Page:
        found = list(collect(self._sources))
        encode, content_type = choose_encoder(accept)

        def encoded() -> bytes:
            return encode(_Collected([*found, *self._process.collect()]))

        return Page(200, await asyncio.to_thread(encoded), content_type)

    def _ready(self) -> Page:
        """Whether verbs can be carried out: the engine is there, and nobody asked the server to end.

        The network is told, too, but does not decide: what brings a network is a pod itself.
        """
        link, network = self._sources.runtime.link, self._sources.runtime.network.status()
        checks = [
            ("server", "it is stopping" if self._sources.stopping() else ""),
            ("engine", str(link.error) if link.error is not None else ""),
        ]
        lines = [f"[-]{name}: {reason}" if reason else f"[+]{name}" for name, reason in checks]
        lines.append("[+]network" if network.ready else f"[ ]network, told only: {network.reason}: {network.message}")
        failed = any(reason for _, reason in checks)
        return Page(503 if failed else 200, "".join(f"{line}\n" for line in lines).encode())
