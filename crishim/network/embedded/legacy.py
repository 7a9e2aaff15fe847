"""Whether the older iptables' filter tables are in use, and whether they were changed: no program is run for it.

Nobody is told when they change, other than nftables.  So they are compared with how they were, as far as it says
whether pods' packets pass: which chains and how many rules there are, FORWARD's policy, and how many rules are marked.
Layouts: linux/netfilter_ipv4/ip_tables.h and its IPv6 counterpart.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from dataclasses import dataclass

_TABLES = {4: "/proc/self/net/ip_tables_names", 6: "/proc/self/net/ip6_tables_names"}
_FILTER = b"filter"
_NAMES_AT_MOST = 4096
_GET_INFO, _GET_ENTRIES = 64, 65  # IPT_SO_GET_INFO and so on; the same numbers for IPv6
_INFO = struct.Struct("=32sI5I5III")  # ipt_getinfo: name, hooks, entries, policies, number, size
_ENTRIES_AT = 40  # in ipt_get_entries: name, size, padding
_FORWARD = 2  # NF_INET_FORWARD
_VERDICT_AT = 32  # in a target: behind its size, name and revision

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class _Family:
    kind: socket.AddressFamily
    level: int
    target_offset: int
    """Where an entry says how far its target is."""


_FAMILIES = {
    4: _Family(socket.AF_INET, socket.IPPROTO_IP, 88),
    6: _Family(socket.AF_INET6, socket.IPPROTO_IPV6, 140),
}

Seen = tuple[object, ...]
"""What was seen of the tables, to be compared."""


def is_in_use(version: int | None = None) -> bool:
    """Say whether there is a filter table of the older iptables: of IPv4, IPv6, or (None) any.  Takes microseconds."""
    if version is None:
        return any(map(is_in_use, _TABLES))
    try:
        descriptor = os.open(_TABLES[version], os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _FILTER in os.read(descriptor, _NAMES_AT_MOST).split()
    finally:
        os.close(descriptor)


def look(mark: str) -> Seen:
    """Return what there is now, the tables' rules with the comment `mark` counted.

    Blocks: the kernel copies the tables.  Raises OSError.
    """
    return tuple(_look(version, mark.encode() + b"\0") if is_in_use(version) else None for version in _TABLES)


def _look(version: int, mark: bytes) -> Seen:
    family = _FAMILIES[version]
    with socket.socket(family.kind, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.IPPROTO_RAW) as asking:
        info = _ask(asking, family.level, _GET_INFO, _FILTER.ljust(_INFO.size, b"\0"))
        told = _INFO.unpack(info)
        policies, size = told[7:12], told[13]
        question = struct.pack("=32sI", _FILTER, size).ljust(_ENTRIES_AT + size, b"\0")
        try:
            entries = _ask(asking, family.level, _GET_ENTRIES, question)[_ENTRIES_AT:]
        except BlockingIOError:  # it changed between the questions
            return info, None
    policy = policies[_FORWARD]
    (target,) = struct.unpack_from("=H", entries, policy + family.target_offset)
    (verdict,) = struct.unpack_from("=i", entries, policy + target + _VERDICT_AT)
    return info, verdict, entries.count(mark)


def _ask(asking: socket.socket, level: int, option: int, question: bytes) -> bytes:
    """getsockopt(2) whose buffer says what is asked for, which Python's own cannot."""
    buffer = ctypes.create_string_buffer(question, len(question))
    length = ctypes.c_uint32(len(question))
    if _libc.getsockopt(asking.fileno(), level, option, buffer, ctypes.byref(length)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the older iptables' rules cannot be read: {os.strerror(number)}")
    return buffer.raw[: length.value]
