"""Port mappings, and the elements of our table that make them.  Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cni.errors import Code
from cni.plugins.api import CallFailed
from cni.plugins.nft import skeleton
from cni.plugins.nft.encode import Element
from cni.plugins.options import Reader, invalid

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPInterface = ipaddress.IPv4Interface | ipaddress.IPv6Interface

PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}
"""Numbers of the protocols (IANA)."""
SETS = frozenset(name for group in (skeleton.PORTS, skeleton.HOST_PORTS, skeleton.TARGETS) for name in group.values())
"""Sets that hold elements of port mappings."""
TAKEN = 101
"""Error code: another container has the host port."""


@dataclass(frozen=True)
class Mapping:
    """A port of the host that leads to one of the container."""

    host_port: int
    container_port: int
    protocol: int
    """Its number."""
    host_ip: IPAddress | None = None
    """Only this address of the host; None: all of them, of either family."""


@dataclass(frozen=True)
class Port:
    """A mapping as an element has it."""

    version: int
    """4 or 6."""
    protocol: int
    host_ip: IPAddress | None
    host_port: int
    address: IPAddress
    """The container's."""

    def __str__(self) -> str:
        name = next((name for name, number in PROTOCOLS.items() if number == self.protocol), str(self.protocol))
        return f"{self.host_port}/{name}" + (f" of {self.host_ip}" if self.host_ip else "")


def parse_mappings(runtime: Reader) -> list[Mapping]:
    """Read `runtimeConfig.portMappings` (CNI CONVENTIONS.md, "Dynamic Plugin specific Fields").  Raises CallFailed."""
    mappings = []
    for index, item in enumerate(runtime.items("portMappings")):
        entry = Reader(item, f"{runtime.position('portMappings')}[{index}]")
        name = entry.text("protocol", "tcp").lower()
        if name not in PROTOCOLS:
            raise invalid(entry.position("protocol"), f"{name!r} is not one of {', '.join(PROTOCOLS)}")
        host_ip = entry.address("hostIP")
        if host_ip is not None and host_ip.version == 6 and host_ip.is_loopback:
            raise invalid(entry.position("hostIP"), "the kernel lets no packet from ::1 leave the host")
        ports = (entry.number("hostPort", 0, 0, 65535), entry.number("containerPort", 0, 0, 65535))
        if 0 in ports:
            raise invalid(entry.position("hostPort" if not ports[0] else "containerPort"), "must be 1 to 65535")
        entry.finish()
        mappings.append(Mapping(*ports, PROTOCOLS[name], host_ip))
    return mappings


def make_elements(comment: str, mappings: Sequence[Mapping], addresses: Sequence[IPInterface]) -> list[Element]:
    """Return the elements that make `mappings` lead to the first address of each family.

    Raises CallFailed for a `host_ip` of a family of which the container has no address, or two mappings of one port.
    """
    first: dict[int, IPInterface] = {}
    for address in addresses:
        first.setdefault(address.version, address)
    elements: dict[tuple[str, bytes], Element] = {}
    for mapping in mappings:
        versions = [4, 6] if mapping.host_ip is None else [mapping.host_ip.version]
        reached = [first[version] for version in versions if version in first]
        if not reached:
            raise CallFailed(
                Code.INVALID_CONFIG, f"the container has no address of the family of {mapping.host_ip or 'any'}"
            )
        for container in reached:
            for element in _elements(comment, mapping, container):
                known = elements.setdefault((element.set, element.key), element)
                if known != element:
                    raise CallFailed(Code.INVALID_CONFIG, f"host port {parse_port(element)} is mapped twice")
    return list(elements.values())


def parse_port(element: Element) -> Port | None:
    """Read an element back; None: it makes no host port (it is a target's)."""
    version = next((v for v in (4, 6) if element.set in (skeleton.PORTS[v], skeleton.HOST_PORTS[v])), 0)
    if not version:
        return None
    length = 4 if version == 4 else 16
    key = element.key
    host_ip = ipaddress.ip_address(key[:-8]) if len(key) > 8 else None
    address = ipaddress.ip_address(element.value[:length])
    return Port(version, key[-8], host_ip, int.from_bytes(key[-4:-2], "big"), address)


def _elements(comment: str, mapping: Mapping, container: IPInterface) -> list[Element]:
    version = container.version
    host, target = _port(mapping.host_port), _port(mapping.container_port)
    protocol = bytes([mapping.protocol, 0, 0, 0])
    value = container.packed + target
    if mapping.host_ip is None or mapping.host_ip.is_unspecified:
        entry = Element(skeleton.PORTS[version], protocol + host, value, comment=comment)
    else:
        entry = Element(skeleton.HOST_PORTS[version], mapping.host_ip.packed + protocol + host, value, comment=comment)
    back = Element(
        skeleton.TARGETS[version],
        container.packed + protocol + target,
        chain=skeleton.hairpin_chain(container.network),
        comment=comment,
    )
    return [entry, back]


def _port(number: int) -> bytes:
    return number.to_bytes(2, "big") + b"\0\0"
