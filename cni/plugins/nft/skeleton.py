"""The table `inet crishim`: its sets, the rules that look into them, and the chains that belong to one subnet.  Pure.

What an attachment needs is elements only, so that it comes and goes exactly, and the rules stay few however many pods
there are.  As `nft list table inet crishim` shows them:

    chain guard       { type filter hook prerouting priority raw; iifname @guarded ip daddr 127.0.0.0/8 drop }
    chain prerouting  { type nat hook prerouting priority dstnat; fib daddr type local goto hostport }
    chain output      { type nat hook output priority -100; fib daddr type local goto hostport }
    chain hostport    { dnat ip to ip daddr . meta l4proto . th dport map @hostports4; … @ports4; … }
    chain postrouting { type nat hook postrouting priority srcnat;
                        ct status dnat ip daddr . meta l4proto . th dport vmap @targets4; ip saddr vmap @masquerade4 … }
    chain hairpin_SUBNET { ip saddr SUBNET masquerade; ip saddr 127.0.0.0/8 masquerade }
    chain masq_SUBNET    { ip daddr SUBNET return; ip daddr 224.0.0.0/4 return; masquerade }
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterable, Mapping

from cni.plugins.nft import encode
from cni.plugins.nft import expressions as ex
from cni.plugins.nft.encode import Element, Request
from cni.plugins.nft.expressions import IPV4, IPV6, IPNetwork

TABLE = "crishim"
"""Name of the table, of family inet."""
MASQUERADE = {4: "masquerade4", 6: "masquerade6"}
"""Maps: address of a container → chain of its subnet."""
PORTS = {4: "ports4", 6: "ports6"}
"""Maps: protocol and port of any address of the host → address and port of a container."""
HOST_PORTS = {4: "hostports4", 6: "hostports6"}
"""The same for one address of the host, which comes first in the key."""
TARGETS = {4: "targets4", 6: "targets6"}
"""Maps: address, protocol and port of a container that a host port leads to → chain of its subnet."""
GUARDED = "guarded"
"""Set: interfaces with `route_localnet`, whose neighbours must not reach this host's loopback."""

_ADDRESS, _ADDRESS6, _PROTOCOL, _PORT, _VERDICT = 7, 8, 12, 13, 0xFFFFFF00  # types as nft numbers them


def _joined(*types: int) -> int:
    number = 0
    for each in types:
        number = number << 6 | each
    return number


_SETS: Mapping[str, tuple[tuple[int, int], tuple[int, int] | None]] = {
    "masquerade4": ((_ADDRESS, 4), (_VERDICT, 0)),
    "masquerade6": ((_ADDRESS6, 16), (_VERDICT, 0)),
    "ports4": ((_joined(_PROTOCOL, _PORT), 8), (_joined(_ADDRESS, _PORT), 8)),
    "ports6": ((_joined(_PROTOCOL, _PORT), 8), (_joined(_ADDRESS6, _PORT), 20)),
    "hostports4": ((_joined(_ADDRESS, _PROTOCOL, _PORT), 12), (_joined(_ADDRESS, _PORT), 8)),
    "hostports6": ((_joined(_ADDRESS6, _PROTOCOL, _PORT), 24), (_joined(_ADDRESS6, _PORT), 20)),
    "targets4": ((_joined(_ADDRESS, _PROTOCOL, _PORT), 12), (_VERDICT, 0)),
    "targets6": ((_joined(_ADDRESS6, _PROTOCOL, _PORT), 24), (_VERDICT, 0)),
    GUARDED: ((encode.IFNAME, 16), None),
}
SETS = tuple(_SETS)
"""Names of all sets and maps."""

_PREROUTING, _OUTPUT, _POSTROUTING = 0, 3, 4  # hooks
_LOOPBACK = ipaddress.ip_network("127.0.0.0/8")
_MULTICAST = {4: ipaddress.ip_network("224.0.0.0/4"), 6: ipaddress.ip_network("ff00::/8")}
_HOOKED = (
    ("guard", "filter", _PREROUTING, -300),
    ("prerouting", "nat", _PREROUTING, -100),
    ("output", "nat", _OUTPUT, -100),
    ("postrouting", "nat", _POSTROUTING, 100),
)


def _hostport(which: int, version: int) -> list[tuple[bytes, ...]]:
    # The second 32-bit register of a key lies behind an address of 4 or of 16 bytes.
    one = ex.load_destination(which) + ex.load_port(9 if which == IPV4 else 12) + ex.lookup(HOST_PORTS[version], into=1)
    every = ex.load_port(8) + ex.lookup(PORTS[version], into=1)
    if which == IPV6:
        # No packet from ::1 leaves the host. Refused at once, a client that tried it first goes on with 127.0.0.1.
        every = ex.destination_not(ipaddress.IPv6Address("::1")) + every
    return [(ex.family(which), key, ex.redirect(which)) for key in (one, every)]


def _target(which: int, version: int) -> tuple[bytes, ...]:
    port = ex.load_port(9 if which == IPV4 else 12)
    key = (ex.load_destination(which), port, ex.lookup(TARGETS[version], into=0))
    return (ex.redirected(), ex.family(which), *key)


def _source(which: int, version: int) -> tuple[bytes, ...]:
    return ex.family(which), ex.load_source(which), ex.lookup(MASQUERADE[version], into=0)


_TO_HOSTPORT = (ex.to_this_host(), ex.verdict(ex.GOTO, "hostport"))
RULES: Mapping[str, list[tuple[bytes, ...]]] = {
    "guard": [(ex.from_interface_in(GUARDED), ex.destination_in(_LOOPBACK), ex.verdict(ex.DROP))],
    "hostport": [*_hostport(IPV4, 4), *_hostport(IPV6, 6)],
    "prerouting": [_TO_HOSTPORT],
    "output": [_TO_HOSTPORT],
    "postrouting": [_target(IPV4, 4), _target(IPV6, 6), _source(IPV4, 4), _source(IPV6, 6)],
}
"""The rules of each chain that is always there."""


def masquerade_chain(subnet: IPNetwork) -> str:
    """Name the chain that gives what leaves `subnet` an address of the host."""
    return f"masq_{_name(subnet)}"


def hairpin_chain(subnet: IPNetwork) -> str:
    """Name the chain that makes answers to redirected packets from `subnet`, and from loopback, come back this way."""
    return f"hairpin_{_name(subnet)}"


def chain_rules(name: str) -> list[tuple[bytes, ...]]:
    """Return the rules of a subnet's chain: its name says all of it.  Raises ValueError for any other chain."""
    kind, _, text = name.partition("_")
    subnet = ipaddress.ip_network(text.replace("_", ":"))
    if kind == "masq":
        spared = [subnet, _MULTICAST[subnet.version]]
        return [*((ex.destination_in(net), ex.verdict(ex.RETURN)) for net in spared), (ex.masquerade(),)]
    if kind == "hairpin":
        sources = [subnet, _LOOPBACK] if subnet.version == 4 else [subnet]
        return [(ex.source_in(net), ex.masquerade()) for net in sources]
    raise ValueError(f"{name!r} is no chain of a subnet")


@functools.cache  # always the same, and long: encoding it anew would cost a lone pod half a millisecond
def make_skeleton(*, present: bool) -> tuple[Request, ...]:
    """Return what makes the table, or makes it what it should be where it is `present`.  Elements stay."""
    requests = [encode.table(TABLE)]
    for number, (name, (key, data)) in enumerate(_SETS.items(), start=1):
        requests.append(encode.new_set(TABLE, name, key, data, number))
    requests += [encode.base_chain(TABLE, *place) for place in _HOOKED]
    requests.append(encode.chain(TABLE, "hostport"))
    if present:
        requests.append(encode.delete_rules(TABLE))
    for chain, rules in RULES.items():
        requests += [encode.rule(TABLE, chain, *rule) for rule in rules]
    return tuple(requests)


def make_chains(names: Iterable[str]) -> list[Request]:
    """Return what makes subnets' chains, or makes them what they should be."""
    return [request for name in names for request in _make_chain(name)]


@functools.lru_cache(maxsize=64)
def _make_chain(name: str) -> tuple[Request, ...]:
    rules = [encode.rule(TABLE, name, *rule) for rule in chain_rules(name)]
    return encode.chain(TABLE, name), encode.delete_rules(TABLE, name), *rules


def guard(interface: str) -> Element:
    """Make the element that keeps an interface's neighbours from this host's loopback."""
    return Element(GUARDED, interface.encode().ljust(16, b"\0"))


def _name(subnet: IPNetwork) -> str:
    return str(subnet).replace(":", "_")
