"""Links: bridges, veth pairs, and bridge ports."""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass

from cni.plugins.nft.netlink import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    NetlinkError,
    attribute,
    attributes,
    nested,
    string,
    text,
)
from cni.plugins.rtnl.route import Request, Route, read_u32, u8, u32

_NEWLINK, _DELLINK, _GETLINK, _SETLINK = 16, 17, 18, 19
_INFO = struct.Struct("=BxHiII")  # ifinfomsg: family, type, index, flags, change
_ADDRESS, _IFNAME, _MTU, _MASTER, _PROTINFO, _LINKINFO, _IFALIAS, _AF_SPEC, _NET_NS_FD, _EXT_MASK = (
    1,
    3,
    4,
    10,
    12,
    18,
    20,
    26,
    28,
    29,
)
_LINK = 5
_INFO_KIND, _INFO_DATA, _INFO_SLAVE_KIND, _INFO_SLAVE_DATA = 1, 2, 4, 5
_VETH_INFO_PEER = 1
_PORT_STATE, _PORT_HAIRPIN, _PORT_ISOLATED = 1, 4, 33
_STATE_DISABLED = 0
_AF_BRIDGE, _AF_INET6 = 7, 10
_INET6_ADDR_GEN_MODE, _ADDR_GEN_NONE = 8, 1
_SKIP_STATS = 1 << 3
_UP = 1


@dataclass(frozen=True, slots=True)
class Port:
    """What a link does as a bridge's port."""

    hairpin: bool
    isolated: bool


@dataclass(frozen=True, slots=True)
class Link:
    """A link as the kernel tells it."""

    index: int
    name: str
    mac: str
    mtu: int
    up: bool
    master: int
    """Index of the bridge that it is a port of, 0: of none."""
    peer: int
    """Index of a pair's other end, in its namespace."""
    kind: str
    """`bridge`, `veth`, …; "": a device."""
    alias: str
    port: Port | None


def find(route: Route, name: str) -> Link | None:
    """Return the link `name`, None when there is none.  Raises NetlinkError."""
    try:
        (message,) = route.ask(_GETLINK, _info() + text(_IFNAME, name) + u32(_EXT_MASK, _SKIP_STATS))
    except NetlinkError as refusal:
        if refusal.errno == errno.ENODEV:
            return None
        raise
    return _link(message.body)


def ports(route: Route, bridge: int) -> list[Link]:
    """Return the ports of the bridge with index `bridge`.  Raises NetlinkError."""
    listed = route.dump((_GETLINK, 0, _info() + u32(_MASTER, bridge) + u32(_EXT_MASK, _SKIP_STATS)))
    return [link for link in (_link(message.body) for message in listed) if link.master == bridge]


def of_kind(route: Route, kind: str) -> list[Link]:
    """Return the links of a kind (`ifb`).  Raises NetlinkError."""
    wanted = nested(_LINKINFO, text(_INFO_KIND, kind))
    try:
        listed = route.dump((_GETLINK, 0, _info() + wanted + u32(_EXT_MASK, _SKIP_STATS)))
    except NetlinkError as refusal:
        if refusal.errno == errno.ENOTSUP:  # the kernel knows no such links (yet)
            return []
        raise
    return [link for link in (_link(message.body) for message in listed) if link.kind == kind]


def _link(body: bytes) -> Link:
    _, _, index, flags, _ = _INFO.unpack_from(body)
    told = attributes(body, _INFO.size)
    info = attributes(told.get(_LINKINFO, b""))
    port = None
    if string(info.get(_INFO_SLAVE_KIND, b"")) == "bridge":
        data = attributes(info.get(_INFO_SLAVE_DATA, b""))
        port = Port(data.get(_PORT_HAIRPIN, b"\0") != b"\0", data.get(_PORT_ISOLATED, b"\0") != b"\0")
    return Link(
        index=index,
        name=string(told.get(_IFNAME, b"")),
        mac=told.get(_ADDRESS, b"").hex(":"),
        mtu=read_u32(told.get(_MTU)),
        up=bool(flags & _UP),
        master=read_u32(told.get(_MASTER)),
        peer=read_u32(told.get(_LINK)),
        kind=string(info.get(_INFO_KIND, b"")),
        alias=string(told.get(_IFALIAS, b"")),
        port=port,
    )


def new_bridge(name: str, mac: str, mtu: int = 0) -> Request:
    """Make a bridge, up.  `mtu` 0: the kernel's choice.

    It gets an address of its own so that it does not take, and lose, those of its ports: containers know it as their
    gateway.
    """
    parts = [text(_IFNAME, name), _mac(mac), _mtu(mtu), nested(_LINKINFO, text(_INFO_KIND, "bridge"))]
    return _NEWLINK, NLM_F_CREATE | NLM_F_EXCL, _info(_UP) + b"".join(parts)


def new_veth(name: str, mac: str, master: int, peer: str, peer_mac: str, netns: int, mtu: int = 0) -> Request:
    """Make a pair: `name` here, a port of the bridge `master`, and `peer` in the namespace with descriptor `netns`.

    Both are down.  It is all or nothing.
    """
    there = _info() + text(_IFNAME, peer) + _mac(peer_mac) + _mtu(mtu) + u32(_NET_NS_FD, netns)
    data = nested(_INFO_DATA, attribute(_VETH_INFO_PEER, there))
    parts = [text(_IFNAME, name), _mac(mac), _mtu(mtu), u32(_MASTER, master)]
    parts.append(nested(_LINKINFO, text(_INFO_KIND, "veth"), data))
    return _NEWLINK, NLM_F_CREATE | NLM_F_EXCL, _info() + b"".join(parts)


def set_up_port(name: str, alias: str, port: Port) -> Request:
    """Set how the bridge's port `name` behaves, mark it with `alias`, and put it up without an IPv6 address."""
    data = nested(_INFO_SLAVE_DATA, u8(_PORT_HAIRPIN, port.hairpin), u8(_PORT_ISOLATED, port.isolated))
    parts = [text(_IFNAME, name), text(_IFALIAS, alias), nested(_LINKINFO, text(_INFO_SLAVE_KIND, "bridge"), data)]
    parts.append(nested(_AF_SPEC, nested(_AF_INET6, u8(_INET6_ADDR_GEN_MODE, _ADDR_GEN_NONE))))
    return _NEWLINK, 0, _info(_UP) + b"".join(parts)


def set_master(name: str, bridge: int) -> Request:
    """Make the link `name` a port of the bridge with index `bridge`."""
    return _SETLINK, 0, _info() + text(_IFNAME, name) + u32(_MASTER, bridge)


def set_up(index: int) -> Request:
    """Put a link up."""
    return _SETLINK, 0, _info(_UP, index)


def set_mac(index: int, mac: str) -> Request:
    """Give a link an address for good, be it the one that it has."""
    return _SETLINK, 0, _info(0, index) + _mac(mac)


def silence_port(index: int) -> Request:
    """Let a bridge's port pass nothing any more.  Done at once, other than putting it down."""
    body = _INFO.pack(_AF_BRIDGE, 0, index, 0, 0) + nested(_PROTINFO, u8(_PORT_STATE, _STATE_DISABLED))
    return _SETLINK, 0, body


def delete(index: int) -> Request:
    """Take a link away; of a veth pair both ends.  The kernel waits some 20 ms until nobody uses it any more."""
    return _DELLINK, 0, _info(0, index)


def delete_named(name: str) -> Request:
    """Take the link of this name away."""
    return _DELLINK, 0, _info() + text(_IFNAME, name)


def _info(flags: int = 0, index: int = 0) -> bytes:
    return _INFO.pack(0, 0, index, flags, flags)


def _mac(mac: str) -> bytes:
    return attribute(_ADDRESS, bytes.fromhex(mac.replace(":", "")))


def _mtu(mtu: int) -> bytes:
    return u32(_MTU, mtu) if mtu else b""
