"""Whether somebody else uses the embedded network's ranges already, by the kernel's routes."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from pathlib import Path

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_IGNORED = ("lo",)


def find_overlap(ranges: Sequence[str], own: str, proc: Path = Path("/proc/net")) -> str:
    """Say which route of another interface than `own` lies in, or covers, one of `ranges`; "" where none does.

    A default route covers everything and does not count.
    """
    for subnet, interface in (*_four(proc / "route"), *_six(proc / "ipv6_route")):
        if interface == own or subnet.prefixlen == 0:
            continue
        for text in ranges:
            wanted = ipaddress.ip_network(text)
            if wanted.version == subnet.version and wanted.overlaps(subnet):
                return f"{text} overlaps with {subnet}, which {interface} leads to"
    return ""


def leads_elsewhere(ranges: Sequence[str], own: str, proc: Path = Path("/proc/net")) -> bool:
    """Say whether interface `own` has an address of none of `ranges`: it was made for others."""
    wanted = [ipaddress.ip_network(text) for text in ranges]
    routes = (*_four(proc / "route"), *_six(proc / "ipv6_route"))
    return any(interface == own and not _inside(subnet, wanted) for subnet, interface in routes)


def _inside(subnet: IPNetwork, ranges: Sequence[IPNetwork]) -> bool:
    return any(
        int(each.network_address) <= int(subnet.network_address)
        and int(subnet.broadcast_address) <= int(each.broadcast_address)
        for each in ranges
        if each.version == subnet.version
    )


def _four(file: Path) -> Iterator[tuple[IPNetwork, str]]:
    for line in _lines(file)[1:]:
        fields = line.split()
        address, mask = (int(fields[index], 16).to_bytes(4, "little") for index in (1, 7))
        yield ipaddress.ip_network((address, int.from_bytes(mask, "big").bit_count())), fields[0]


def _six(file: Path) -> Iterator[tuple[IPNetwork, str]]:
    for line in _lines(file):
        fields = line.split()
        if fields[-1] in _IGNORED:
            continue
        subnet = ipaddress.ip_network((bytes.fromhex(fields[0]), int(fields[1], 16)), strict=False)
        if not subnet.is_link_local and not subnet.is_multicast:
            yield subnet, fields[-1]


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").splitlines()
    except FileNotFoundError:  # a kernel without this family
        return []
