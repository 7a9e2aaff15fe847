"""Taking connections out of the kernel's table (linux/netfilter/nfnetlink_conntrack.h).

A redirection is decided once per connection, and UDP has connections for as long as somebody keeps sending: those that
began before a host port was mapped would pass it by, those that began before it was unmapped would go on to nobody.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cni.plugins.nft.encode import header
from cni.plugins.nft.netlink import (
    NETLINK_NETFILTER,
    NLM_F_ACK,
    Netlink,
    NetlinkError,
    attribute,
    attributes,
    nested,
)

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_GET, _DELETE = 0x101, 0x102
_ORIGINAL, _REPLY, _ID, _ZONE, _FILTER = 1, 2, 12, 18, 25
_IP, _PROTO = 1, 2
_NUMBER, _DESTINATION_PORT = 1, 3
_BY_PROTOCOL_AND_PORT = 1 << 3 | 1 << 5


@dataclass(frozen=True)
class Connection:
    """A tracked connection: where its first packet was sent to, and who answers."""

    destination: IPAddress
    answered_by: IPAddress


Chosen = Callable[[Connection], bool]


def forget(protocol: int, port: int, version: int, chosen: Chosen) -> int:
    """Take the connections to `port` that `chosen` picks out of the table; return how many.

    `version`: 4 or 6.  Raises OSError.
    """
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    with Netlink(NETLINK_NETFILTER, "connection tracking") as link:
        marked = [deletion for connection, deletion in _list(link, family, protocol, port) if chosen(connection)]
        for deletion in marked:
            try:
                link.ask(_DELETE, deletion, NLM_F_ACK)
            except NetlinkError as error:
                if error.errno != errno.ENOENT:  # it ended by itself
                    raise
    return len(marked)


def _list(link: Netlink, family: int, protocol: int, port: int) -> Iterator[tuple[Connection, bytes]]:
    """Yield connections to the port, each with the request that deletes exactly this one."""
    number = attribute(_NUMBER, bytes([protocol]))
    target = nested(_ORIGINAL, nested(_PROTO, number, attribute(_DESTINATION_PORT, port.to_bytes(2, "big"))))
    # Before Linux 5.8 the kernel knows no filter and lists all: so what comes is looked at again.
    only = nested(_FILTER, attribute(1, struct.pack("=I", _BY_PROTOCOL_AND_PORT)), attribute(2, struct.pack("=I", 0)))
    for answer in link.dump_all(_GET, header(family) + target + only):
        parts = attributes(answer.body, 4)
        original, reply = attributes(parts.get(_ORIGINAL, b"")), attributes(parts.get(_REPLY, b""))
        proto = attributes(original.get(_PROTO, b""))
        if proto.get(_NUMBER) != bytes([protocol]) or proto.get(_DESTINATION_PORT) != port.to_bytes(2, "big"):
            continue
        source, destination = (1, 2) if family == socket.AF_INET else (3, 4)
        connection = Connection(
            ipaddress.ip_address(attributes(original[_IP])[destination]),
            ipaddress.ip_address(attributes(reply[_IP])[source]),
        )
        exactly = nested(_ORIGINAL, parts[_ORIGINAL])
        exactly += b"".join(attribute(kind, parts[kind]) for kind in (_ZONE, _ID) if kind in parts)
        yield connection, header(family) + exactly
