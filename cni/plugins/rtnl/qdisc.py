"""Queueing disciplines: token buckets, and the redirection of what a link receives to a link that can queue it."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from cni.plugins.nft.netlink import NLM_F_CREATE, NLM_F_EXCL, attribute, attributes, nested, string, text
from cni.plugins.rtnl.route import Request, Route, u32

_NEWQDISC, _DELQDISC, _GETQDISC, _NEWFILTER, _GETFILTER = 36, 37, 38, 44, 46
_TC = struct.Struct("=BxxxiIII")  # tcmsg: family, index, handle, parent, info
_KIND, _OPTIONS = 1, 2
_ROOT, _INGRESS = 0xFFFFFFFF, 0xFFFFFFF1
_INGRESS_HANDLE = 0xFFFF0000
_FIRST_HANDLE = 0x00010000
_RATE = struct.Struct("=BBHhHI")  # tc_ratespec: cell log, link layer, overhead, cell align, least packet, rate
_TBF = struct.Struct("=12s12sIII")  # tc_tbf_qopt: rate, peak rate, limit, buffer, mtu
_TBF_PARMS, _TBF_RATE64, _TBF_BURST = 1, 4, 6
_ETHERNET = 1  # link layer; with it the kernel wants no table of times
_U32_SEL, _U32_ACT = 5, 7
_SELECT_ALL = struct.pack("=BBBxHHhhI", 1, 0, 1, 0, 0, 0, 0, 0) + bytes(16)  # terminal, one key without any bit
_ACT_KIND, _ACT_OPTIONS = 1, 2
_MIRRED_PARMS = 2
_MIRRED = struct.Struct("=IIiiiiI")  # tc_mirred: index, capabilities, action, references, bindings, what, link
_STOLEN, _EGRESS_REDIRECT = 4, 1
_ALL_PROTOCOLS = socket.htons(0x0003)
_MOST = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """A limit of what a link sends."""

    rate: int
    """Bytes per second."""
    limit: int
    """Bytes that may wait; more is dropped."""


def new_token_bucket(index: int, rate: int, burst: int, limit: int) -> Request:
    """Let the link send `rate` bytes a second, and `burst` bytes at once after a pause."""
    spec = _RATE.pack(0, _ETHERNET, 0, 0, 0, min(rate, _MOST))
    options = [attribute(_TBF_PARMS, _TBF.pack(spec, bytes(12), min(limit, _MOST), 0, 0)), u32(_TBF_BURST, burst)]
    if rate > _MOST:
        options.append(attribute(_TBF_RATE64, struct.pack("=Q", rate)))
    body = _TC.pack(0, index, _FIRST_HANDLE, _ROOT, 0) + text(_KIND, "tbf") + nested(_OPTIONS, *options)
    return _NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, body


def new_ingress(index: int) -> Request:
    """Let filters be put on what the link receives."""
    body = _TC.pack(0, index, _INGRESS_HANDLE, _INGRESS, 0) + text(_KIND, "ingress")
    return _NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, body


def redirect(index: int, to: int) -> Request:
    """Let the link with index `to` send what this one receives, before anything else sees it."""
    mirred = _MIRRED.pack(0, 0, _STOLEN, 0, 0, _EGRESS_REDIRECT, to)
    action = text(_ACT_KIND, "mirred") + nested(_ACT_OPTIONS, attribute(_MIRRED_PARMS, mirred))
    options = [attribute(_U32_SEL, _SELECT_ALL), nested(_U32_ACT, nested(1, action))]
    body = _TC.pack(0, index, 0, _INGRESS_HANDLE, 1 << 16 | _ALL_PROTOCOLS) + text(_KIND, "u32")
    return _NEWFILTER, NLM_F_CREATE | NLM_F_EXCL, body + nested(_OPTIONS, *options)


def delete_root(index: int) -> Request:
    """Take the link's own discipline away; the kernel's takes its place."""
    return _DELQDISC, 0, _TC.pack(0, index, 0, _ROOT, 0)


def delete_ingress(index: int) -> Request:
    """Take the filters on what the link receives away."""
    return _DELQDISC, 0, _TC.pack(0, index, _INGRESS_HANDLE, _INGRESS, 0)


def token_bucket(route: Route, index: int) -> TokenBucket | None:
    """Return the limit of what the link sends, None when it has none.  Raises NetlinkError."""
    for message in route.dump((_GETQDISC, 0, _TC.pack(0, index, 0, 0, 0))):
        _, of, _, parent, _ = _TC.unpack_from(message.body)
        told = attributes(message.body, _TC.size)
        if of != index or parent != _ROOT or string(told.get(_KIND, b"")) != "tbf":
            continue
        options = attributes(told.get(_OPTIONS, b""))
        spec, _, limit, _, _ = _TBF.unpack_from(options[_TBF_PARMS])
        rate = _RATE.unpack(spec)[5]
        if _TBF_RATE64 in options:
            (rate,) = struct.unpack("=Q", options[_TBF_RATE64])
        return TokenBucket(rate, limit)
    return None


def redirects(route: Route, index: int) -> bool:
    """Say whether any filter is on what the link receives.  Raises NetlinkError."""
    listed = route.dump((_GETFILTER, 0, _TC.pack(0, index, 0, _INGRESS_HANDLE, 0)))
    return any(_TC.unpack_from(message.body)[1] == index for message in listed)
