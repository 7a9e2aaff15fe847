"""Ranges of addresses and the order in which they are given out.  Pure.

The rules are the reference plugin's, so that either can go on where the other stopped: a range begins after the
network's address and ends before an IPv4 broadcast address, its gateway is the first address of the subnet, and who
asks gets the address after the last one that was given out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from cni.plugins.api import CallFailed
from cni.plugins.options import Reader, invalid

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
RangeSet = tuple["Range", ...]
"""Ranges of one family; a container gets one address of each set."""


@dataclass(frozen=True, slots=True)
class Range:
    """Addresses of a subnet from `start` to `end`, without the gateway."""

    subnet: Network
    start: Address
    end: Address
    gateway: Address

    def __contains__(self, address: Address) -> bool:
        return address.version == self.start.version and int(self.start) <= int(address) <= int(self.end)

    def __str__(self) -> str:
        return f"{self.start}-{self.end}"


def read_sets(reader: Reader, key: str) -> tuple[RangeSet, ...]:
    """Read a list of range sets.  Raises CallFailed with the position of what is wrong."""
    sets = []
    for index, item in enumerate(reader.items(key)):
        at = f"{reader.position(key)}[{index}]"
        if not isinstance(item, list) or not item:
            raise invalid(at, "must be a list of at least one range")
        ranges = tuple(read_range(Reader(value, f"{at}[{place}]")) for place, value in enumerate(item))
        if len({one.subnet.version for one in ranges}) > 1:
            raise invalid(at, "mixes IPv4 and IPv6")
        sets.append(ranges)
    return tuple(sets)


def check_disjoint(sets: tuple[RangeSet, ...], at: str) -> None:
    """Raise CallFailed when two ranges have an address in common: two sets could give it out twice."""
    every = sorted((one for ranges in sets for one in ranges), key=lambda one: (one.start.version, int(one.start)))
    for low, high in itertools.pairwise(every):
        if high.start in low:
            raise invalid(at, f"the ranges {low} and {high} overlap")


def read_range(reader: Reader) -> Range:
    """Read one range.  Raises CallFailed."""
    text = reader.text("subnet")
    try:
        subnet = ip_network(text)
    except ValueError as error:
        raise invalid(reader.position("subnet"), str(error) if text else "is missing") from None
    if subnet.prefixlen > subnet.max_prefixlen - 2:
        raise invalid(reader.position("subnet"), f"{subnet} is too small to give out addresses")
    first = subnet.network_address + 1
    last = subnet.broadcast_address - (1 if subnet.version == 4 else 0)
    start, end, gateway = (_within(reader, key, subnet) for key in ("rangeStart", "rangeEnd", "gateway"))
    reader.finish()
    start, end, gateway = start or first, end or last, gateway or first
    if int(start) > int(end):
        raise invalid(reader.position("rangeEnd"), f"{end} comes before {start}, where the range begins")
    return Range(subnet, start, end, gateway)


def _within(reader: Reader, key: str, subnet: Network) -> Address | None:
    address = reader.address(key)
    if key != "gateway" and address is not None and (address.version != subnet.version or address not in subnet):
        raise invalid(reader.position(key), f"{address} is not in {subnet}")
    return address


def range_of(ranges: RangeSet, address: Address) -> Range | None:
    """Return the range that `address` is in, None when it is in none."""
    return next((one for one in ranges if address in one), None)


def candidates(ranges: RangeSet, last: Address | None) -> Iterator[tuple[Address, Range]]:
    """Yield every address of the set that may be given out, once, beginning after `last`."""
    begin = range_of(ranges, last) if last is not None else None
    order = ranges
    if begin is not None and last is not None:
        place = ranges.index(begin)
        order = ranges[place:] + ranges[:place]
        yield from _addresses(begin, int(last) + 1, int(begin.end))
        for one in order[1:]:
            yield from _addresses(one, int(one.start), int(one.end))
        yield from _addresses(begin, int(begin.start), int(last))
        return
    for one in order:
        yield from _addresses(one, int(one.start), int(one.end))


def _addresses(one: Range, first: int, last: int) -> Iterator[tuple[Address, Range]]:
    kind = type(one.start)
    for number in range(first, last + 1):
        address = kind(number)
        if address != one.gateway:
            yield address, one


def parse_requested(text: str) -> Address:
    """Read an address that a container asked for, with or without a prefix length.  Raises CallFailed."""
    try:
        return ip_address(text.partition("/")[0])
    except ValueError as error:
        raise CallFailed(7, f"the address that was asked for: {error}") from None
