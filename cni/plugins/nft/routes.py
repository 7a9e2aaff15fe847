"""Two questions to the routing table: by which interface an address is reached, and whether it is this host's."""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from dataclasses import dataclass

from cni.plugins.nft.netlink import NETLINK_ROUTE, Netlink, NetlinkError, attribute, attributes

_GETROUTE = 26
_LOCAL = 2  # RTN_LOCAL
_DST, _OIF, _GATEWAY = 1, 4, 5
_MESSAGE = struct.Struct("=BBBBBBBBI")
_NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENOENT, errno.EINVAL, errno.EACCES)


@dataclass(frozen=True)
class Path:
    """How packets to an address go."""

    interface: str
    """Name of the interface they leave by."""
    direct: bool
    """Whether the address is a neighbour there: not behind a gateway, not this host itself."""
    local: bool
    """Whether it is an address of this host."""


def find(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Path | None:
    """Ask the kernel for the path to `address`; None: there is none.  Raises OSError."""
    which = socket.AF_INET if address.version == 4 else socket.AF_INET6
    body = _MESSAGE.pack(which, address.max_prefixlen, 0, 0, 0, 0, 0, 0, 0) + attribute(_DST, address.packed)
    try:
        with Netlink(NETLINK_ROUTE, f"route to {address}") as link:
            answers = link.ask(_GETROUTE, body, 0)
    except NetlinkError as error:
        if error.errno in _NO_ROUTE:
            return None
        raise
    if not answers:
        return None
    kind = answers[0].body[7]
    parts = attributes(answers[0].body, _MESSAGE.size)
    if _OIF not in parts:
        return None
    interface = socket.if_indextoname(struct.unpack("=I", parts[_OIF])[0])
    return Path(interface, direct=kind != _LOCAL and _GATEWAY not in parts, local=kind == _LOCAL)
