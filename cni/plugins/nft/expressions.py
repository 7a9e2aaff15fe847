"""What a rule is made of: nftables' expressions and verdicts in netlink's form (linux/netfilter/nf_tables.h).  Pure."""

from __future__ import annotations

import ipaddress
import struct

from cni.plugins.nft.netlink import attribute, nested, number, text

ACCEPT, DROP, GOTO, JUMP, RETURN = 1, 0, -4, -3, -5
"""Verdicts."""
IPV4, IPV6 = 2, 10
"""Protocol families as the packet filter numbers them."""

_NETWORK, _TRANSPORT = 1, 2  # bases of a payload load
_IIFNAME, _NFPROTO, _L4PROTO = 6, 15, 16  # keys of meta
_LOCAL = 2  # RTN_LOCAL
_DNAT_DONE = 0x20  # IPS_DST_NAT in a connection's status
_SADDR = {IPV4: (12, 4), IPV6: (8, 16)}
_DADDR = {IPV4: (16, 4), IPV6: (24, 16)}

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


def expression(name: str, *attrs: bytes) -> bytes:
    """Wrap an expression's attributes as an element of a rule."""
    return nested(1, text(1, name), nested(2, *attrs))


def value(kind: int, data: bytes) -> bytes:
    """Encode a constant."""
    return nested(kind, attribute(1, data))


def verdict_data(kind: int, code: int, chain: str = "") -> bytes:
    """Encode a verdict, as an immediate or as the data of a map's element."""
    parts = [number(1, code), *([text(2, chain)] if chain else [])]
    return nested(kind, nested(2, *parts))


def verdict(code: int, chain: str = "") -> bytes:
    """Decide: ACCEPT, DROP, RETURN; JUMP and GOTO with a chain."""
    return expression("immediate", number(1, 0), verdict_data(2, code, chain))


def masquerade() -> bytes:
    """Give the packet the address of the interface that it leaves by."""
    return expression("masq")


def equal(data: bytes, register: int = 1) -> bytes:
    """Go on only if the register holds `data`."""
    return expression("cmp", number(1, register), number(2, 0), value(3, data))


def family(which: int) -> bytes:
    """Go on only with packets of this family."""
    return _meta(_NFPROTO, 1) + equal(bytes([which]))


def from_interface_in(name: str) -> bytes:
    """Go on only if the interface that the packet came by is in this set."""
    return _meta(_IIFNAME, 1) + lookup(name)


def source_in(network: IPNetwork) -> bytes:
    """Go on only with packets from this network."""
    return _address_in(_SADDR, network)


def destination_in(network: IPNetwork) -> bytes:
    """Go on only with packets to this network."""
    return _address_in(_DADDR, network)


def load_source(which: int) -> bytes:
    """Put the packet's source address into the first register."""
    return _load(1, _NETWORK, *_SADDR[which])


def load_destination(which: int) -> bytes:
    """Put the packet's destination address into the first register."""
    return _load(1, _NETWORK, *_DADDR[which])


def destination_not(address: ipaddress.IPv6Address) -> bytes:
    """Go on only with IPv6 packets to another address than this."""
    differs = expression("cmp", number(1, 1), number(2, 1), value(3, address.packed))
    return family(IPV6) + load_destination(IPV6) + differs


def load_port(register: int) -> bytes:
    """Put protocol and destination port into this 32-bit register and the next: as a set's key, 4 bytes each."""
    return _meta(_L4PROTO, register) + _load(register + 1, _TRANSPORT, 2, 2)


def lookup(name: str, into: int | None = None) -> bytes:
    """Look the registers from the first on up in a set; of a map the data goes to register `into` (0: verdict)."""
    result = [] if into is None else [number(3, into)]
    return expression("lookup", text(1, name), number(2, 1), *result)


def to_this_host() -> bytes:
    """Go on only if the destination is an address of this host."""
    return expression("fib", number(1, 1), number(2, 3), number(3, 2)) + equal(struct.pack("=I", _LOCAL))


def redirected() -> bytes:
    """Go on only if the connection's destination was rewritten."""
    load = expression("ct", number(1, 1), number(2, 2))
    mask = expression(
        "bitwise",
        number(1, 1),
        number(2, 1),
        number(3, 4),
        value(4, struct.pack("=I", _DNAT_DONE)),
        value(5, bytes(4)),
    )
    return load + mask + equal(struct.pack("=I", _DNAT_DONE))


def redirect(which: int) -> bytes:
    """Rewrite the destination to the address and port that a lookup put into the registers from the first on."""
    port = 9 if which == IPV4 else 12  # 32-bit registers are numbered from 8 on
    return expression("nat", number(1, 1), number(2, which), number(3, 1), number(5, port))


def _meta(key: int, register: int) -> bytes:
    return expression("meta", number(2, key), number(1, register))


def _load(register: int, base: int, offset: int, length: int) -> bytes:
    return expression("payload", number(1, register), number(2, base), number(3, offset), number(4, length))


def _address_in(field: dict[int, tuple[int, int]], network: IPNetwork) -> bytes:
    which = IPV4 if network.version == 4 else IPV6
    offset, length = field[which]
    mask = expression(
        "bitwise",
        number(1, 1),
        number(2, 1),
        number(3, length),
        value(4, network.netmask.packed),
        value(5, bytes(length)),
    )
    return family(which) + _load(1, _NETWORK, offset, length) + mask + equal(network.network_address.packed)
