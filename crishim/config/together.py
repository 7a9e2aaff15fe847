"""Settings that are right each alone and contradict one another, or open a door that must be opened by name."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from crishim.config.settings import Settings


def contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    """The key to which each is attributed, and what is wrong in words."""
    if settings.metrics_address and _reachable(settings.metrics_address) and not settings.metrics_insecure:
        yield (
            "metrics_address",
            "it can be reached from other machines, and everyone there could read it: choose a loopback address, or "
            "say --metrics-insecure true",
        )
    certificate, key = settings.streaming_certificate, settings.streaming_key
    for name, other in (
        ("streaming_certificate", "streaming_key"),
        ("streaming_key", "streaming_certificate"),
        ("streaming_client_ca", "streaming_certificate"),
    ):
        if getattr(settings, name) is not None and getattr(settings, other) is None:
            yield name, f"TLS needs a certificate and its key: {other} is not set"
    if _reachable(settings.streaming_address) and not (certificate and key) and not settings.streaming_insecure:
        yield (
            "streaming_address",
            "it can be reached from other machines: give a certificate and its key (--streaming-certificate, "
            "--streaming-key), or say --streaming-insecure true",
        )
    if settings.engine_is_simulated and settings.network not in ("auto", "none"):
        yield "network", "it needs a real engine: the simulated one's pods have no namespace"


def _reachable(address: str) -> bool:
    """Whether other machines can dial an address with a port, of which the kind is known to be right."""
    return not ipaddress.ip_address(address.rpartition(":")[0].strip("[]")).is_loopback
