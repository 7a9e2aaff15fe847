"""From the addresses that IPAM gave to what is to be set up: gateways and routes.  Pure.

The rules are the reference plugin's, except that a route which is there twice counts once.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cni.plugins.bridge.options import Options
from cni.results import IPConfig, Route

_DEFAULT = {4: "0.0.0.0/0", 6: "::/0"}


@dataclass(frozen=True)
class Plan:
    """What container and bridge get."""

    ips: tuple[IPConfig, ...]
    """The container's addresses, each with its gateway where there is one."""
    routes: tuple[Route, ...]
    """The container's routes; one without gateway goes through that of the address of its family."""
    gateways: tuple[str, ...]
    """The bridge's addresses, with prefix length."""

    @property
    def first_address(self) -> str:
        """The first address, with prefix length; "" when there is none."""
        return self.ips[0].address if self.ips else ""

    @property
    def addresses(self) -> list[str]:
        """All addresses, with prefix lengths."""
        return [ip.address for ip in self.ips]

    @property
    def has_ipv6(self) -> bool:
        """Whether any address is one of IPv6."""
        return any(version(ip.address) == 6 for ip in self.ips)

    def gateway_for(self, family: int) -> str:
        """Return the gateway of the first address of a family that has one, "" when there is none."""
        return next((ip.gateway for ip in self.ips if version(ip.address) == family and ip.gateway), "")


def version(address: str) -> int:
    """Return 4 or 6."""
    return 6 if ":" in address else 4


def make(given: Sequence[IPConfig], given_routes: Sequence[Route], options: Options) -> Plan:
    """Plan what the addresses `given` and the options ask for."""
    ips: list[IPConfig] = []
    gateways: list[str] = []
    routes = list(dict.fromkeys(given_routes))
    for ip in given:
        if options.is_gateway and not ip.gateway:
            ip = replace(ip, gateway=str(ipaddress.ip_interface(ip.address).network.network_address + 1))
        ips.append(ip)
        if options.is_gateway:
            gateways.append(f"{ip.gateway}/{ip.address.partition('/')[2]}")
        default = _DEFAULT[version(ip.address)]
        if options.is_default_gateway and not any(route.dst == default and route.gw for route in routes):
            routes.append(Route(dst=default, gw=ip.gateway))
    return Plan(tuple(ips), tuple(routes), tuple(dict.fromkeys(gateways)))
