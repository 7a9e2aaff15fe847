"""The routes that CHECK compares with a result, read by pyroute2: loaded for CHECK only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from cni.plugins.iproute import IPRoute, listed

_FAMILIES = {4: 2, 6: 10}
_NOWHERE = {4: IPv4Address(0), 6: IPv6Address(0)}
_MAIN_TABLE, _UNICAST = 254, 1


@dataclass(frozen=True, slots=True)
class KnownRoute:
    """A route of the main table as the kernel tells it."""

    dst: IPv4Network | IPv6Network
    gateway: IPv4Address | IPv6Address | None


def routes(versions: Iterable[int], what: str) -> list[KnownRoute]:
    """Return the unicast routes of IPv4 or IPv6 in the main table of the calling thread's namespace.

    `what`: what errors say was being talked to.  Raises NetlinkError.
    """
    found: list[KnownRoute] = []
    with IPRoute() as route:
        for version in versions:
            for told in listed(partial(route.route, "dump", family=_FAMILIES[version]), what):
                if (told.get_attr("RTA_TABLE"), told["type"]) != (_MAIN_TABLE, _UNICAST):
                    continue
                dst = f"{told.get_attr('RTA_DST') or _NOWHERE[version]}/{told['dst_len']}"
                gateway = told.get_attr("RTA_GATEWAY")
                found.append(KnownRoute(ip_network(dst), ip_address(gateway) if gateway else None))
    return found
