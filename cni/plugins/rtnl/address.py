"""Addresses, routes and neighbours."""

from __future__ import annotations

import ipaddress
import struct

from cni.plugins.nft.netlink import NLM_F_CREATE, NLM_F_EXCL, attribute, attributes, nested
from cni.plugins.rtnl.route import Request, Route, u32

IPInterface = ipaddress.IPv4Interface | ipaddress.IPv6Interface
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_NEWADDR, _DELADDR, _GETADDR, _NEWROUTE, _NEWNEIGH, _DELNEIGH = 20, 21, 22, 24, 28, 29
_NLM_F_REPLACE = 0x100
_ADDR = struct.Struct("=BBBBi")  # ifaddrmsg: family, prefix length, flags, scope, index
_ROUTE = struct.Struct("=BBBBBBBBI")  # rtmsg: family, dst, src, tos, table, protocol, scope, type, flags
_NEIGH = struct.Struct("=BxxxiHBB")  # ndmsg: family, index, state, flags, type
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_IFA_F_NODAD = 0x02
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PRIORITY, _RTA_METRICS, _RTA_TABLE = 1, 4, 5, 6, 8, 15
_RTAX_MTU, _RTAX_ADVMSS = 2, 8
_NDA_DST, _NDA_LLADDR = 1, 2
_NUD_STALE = 0x04
_MAIN_TABLE = 254
_PROTOCOL_BOOT, _UNICAST = 3, 1
_SCOPE_UNIVERSE, _SCOPE_LINK = 0, 253
_FAMILIES = {4: 2, 6: 10}


def addresses(route: Route, index: int) -> list[IPInterface]:
    """Return the addresses of the link with this index.  Raises NetlinkError."""
    found: list[IPInterface] = []
    for message in route.dump((_GETADDR, 0, _ADDR.pack(0, 0, 0, 0, index))):
        _, length, _, _, of = _ADDR.unpack_from(message.body)
        told = attributes(message.body, _ADDR.size)
        address = told.get(_IFA_LOCAL) or told.get(_IFA_ADDRESS)
        if of == index and address:
            found.append(ipaddress.ip_interface((address, length)))
    return found


def new_address(index: int, address: IPInterface) -> Request:
    """Give a link an address.  One of IPv6 can be used at once: nobody is asked whether it is another's already."""
    family, packed = _FAMILIES[address.version], address.ip.packed
    flags = _IFA_F_NODAD if address.version == 6 else 0
    body = _ADDR.pack(family, address.network.prefixlen, flags, 0, index)
    return _NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body + attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)


def delete_address(index: int, address: IPInterface) -> Request:
    """Take an address from a link."""
    family = _FAMILIES[address.version]
    body = _ADDR.pack(family, address.network.prefixlen, 0, 0, index)
    return _DELADDR, 0, body + attribute(_IFA_LOCAL, address.ip.packed)


def new_route(
    index: int,
    dst: IPNetwork,
    gateway: IPAddress | None,
    *,
    mtu: int = 0,
    advmss: int = 0,
    priority: int = 0,
    table: int = 0,
    scope: int | None = None,
) -> Request:
    """Add a route through the link with this index.  0 and None leave a number to the kernel."""
    family = _FAMILIES[dst.version]
    if scope is None:
        scope = _SCOPE_UNIVERSE if gateway is not None or dst.version == 6 else _SCOPE_LINK
    table = table or _MAIN_TABLE
    body = [_ROUTE.pack(family, dst.prefixlen, 0, 0, min(table, 255) % 255, _PROTOCOL_BOOT, scope, _UNICAST, 0)]
    body += [attribute(_RTA_DST, dst.network_address.packed), u32(_RTA_OIF, index), u32(_RTA_TABLE, table)]
    if gateway is not None:
        body.append(attribute(_RTA_GATEWAY, gateway.packed))
    if priority:
        body.append(u32(_RTA_PRIORITY, priority))
    metrics = [u32(kind, value) for kind, value in ((_RTAX_MTU, mtu), (_RTAX_ADVMSS, advmss)) if value]
    if metrics:
        body.append(nested(_RTA_METRICS, *metrics))
    return _NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, b"".join(body)


def new_neighbour(index: int, address: IPAddress, mac: str) -> Request:
    """Tell who has an address on a link, whatever was believed before; it is verified when used."""
    body = _NEIGH.pack(_FAMILIES[address.version], index, _NUD_STALE, 0, 0)
    parts = [attribute(_NDA_DST, address.packed), attribute(_NDA_LLADDR, bytes.fromhex(mac.replace(":", "")))]
    return _NEWNEIGH, NLM_F_CREATE | _NLM_F_REPLACE, body + b"".join(parts)


def delete_neighbour(index: int, address: IPAddress) -> Request:
    """Forget who has an address on a link."""
    body = _NEIGH.pack(_FAMILIES[address.version], index, 0, 0, 0)
    return _DELNEIGH, 0, body + attribute(_NDA_DST, address.packed)
