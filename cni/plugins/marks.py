"""Marks on links of the host (`ip link show` tells them as alias): whose they are, for GC and for people.  Pure."""

from __future__ import annotations

_AT_MOST = 255  # what the kernel keeps


def make(network: str, container_id: str, ifname: str) -> str:
    """Return the mark of an attachment's link."""
    return f"cni {network} {container_id} {ifname}"[:_AT_MOST]


def parse(text: str, network: str) -> tuple[str, str] | None:
    """Return container id and interface name in a mark of `network`; None in any other, and in one cut short."""
    parts = text.split(" ")
    if len(parts) != 4 or parts[:2] != ["cni", network] or len(text) >= _AT_MOST:
        return None
    return parts[2], parts[3]
