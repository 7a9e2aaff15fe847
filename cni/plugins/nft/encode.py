"""Tables, chains, rules, sets and elements as requests to the kernel (linux/netfilter/nf_tables.h).  Pure."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from cni.plugins.nft.expressions import JUMP, value, verdict_data
from cni.plugins.nft.netlink import (
    NLM_F_APPEND,
    NLM_F_CREATE,
    NLM_F_EXCL,
    attribute,
    attributes,
    each_attribute,
    nested,
    number,
    string,
    text,
)

Request = tuple[int, int, bytes]
"""Type, flags and body of a netlink message."""

INET, ANY = 1, 0
"""Families of tables: IPv4 and IPv6 together; whichever (for questions)."""

GET_TABLE, GET_RULE, GET_ELEMENT, GET_GENERATION = 0xA01, 0xA07, 0xA0D, 0xA10
"""Types of questions."""

_NEW_TABLE, _DEL_TABLE = 0xA00, 0xA02
_NEW_CHAIN, _DEL_CHAIN = 0xA03, 0xA05
_NEW_RULE, _DEL_RULE = 0xA06, 0xA08
_NEW_SET = 0xA09
_NEW_ELEMENT, _DEL_ELEMENT = 0xA0C, 0xA0E

_BEGIN, _END = 0x10, 0x11
_SUBSYSTEM = 10
_GENERAL = struct.Struct(">BBH")
_COMMENT = 0  # type of the comment among an element's user data, as nft(8) writes and shows it
_COMMENT_AT_MOST = 127
_IS_MAP = 8
IFNAME = 41
"""The type of interfaces' names, as nft numbers it."""
_HOST_ORDER = struct.pack("=BBI", 0, 4, 1)
"""A set's user data: its key is in the host's byte order. nft(8) shows names as empty without."""


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a set or map: one attachment's share of the rules."""

    set: str
    key: bytes
    value: bytes = b""
    """What a map gives for the key."""
    chain: str = ""
    """Or the chain that it leads to."""
    comment: str = ""
    """Whose it is; nft(8) shows it."""


def header(family: int, resource: int = 0) -> bytes:
    """The packet filter's header, which follows netlink's."""
    return _GENERAL.pack(family, 0, resource)


def begin(generation: int) -> Request:
    """Open a batch that the kernel takes only if nobody changed any rule since `generation`."""
    return _BEGIN, 0, header(ANY, _SUBSYSTEM) + number(1, generation)


def end() -> Request:
    """Close a batch."""
    return _END, 0, header(ANY, _SUBSYSTEM)


def table(name: str) -> Request:
    """Make a table if it is not there."""
    return _NEW_TABLE, NLM_F_CREATE, header(INET) + text(1, name) + number(2, 0)


def delete_table(name: str) -> Request:
    """Take a table away with all that is in it."""
    return _DEL_TABLE, 0, header(INET) + text(1, name)


def chain(in_table: str, name: str) -> Request:
    """Make a chain for others to call if it is not there."""
    return _NEW_CHAIN, NLM_F_CREATE, header(INET) + text(1, in_table) + text(3, name)


def base_chain(in_table: str, name: str, kind: str, hook: int, priority: int) -> Request:
    """Make a chain that the kernel calls at `hook` if it is not there; what it does not decide is accepted."""
    place = nested(4, number(1, hook), number(2, priority))
    parts = [text(1, in_table), text(3, name), place, number(5, 1), text(7, kind)]
    return _NEW_CHAIN, NLM_F_CREATE, header(INET) + b"".join(parts)


def delete_chain(in_table: str, name: str) -> Request:
    """Take a chain away with its rules; refused while another chain or an element leads to it."""
    return _DEL_CHAIN, 0, header(INET) + text(1, in_table) + text(3, name)


def delete_rules(in_table: str, in_chain: str = "") -> Request:
    """Take all rules away, of one chain or of all."""
    where = text(2, in_chain) if in_chain else b""
    return _DEL_RULE, 0, header(INET) + text(1, in_table) + where


def rule(in_table: str, in_chain: str, *expressions: bytes) -> Request:
    """Append a rule."""
    body = text(1, in_table) + text(2, in_chain) + nested(4, *expressions)
    return _NEW_RULE, NLM_F_CREATE | NLM_F_APPEND, header(INET) + body


def new_set(in_table: str, name: str, key: tuple[int, int], data: tuple[int, int] | None, number_of: int) -> Request:
    """Make a set, or with `data` a map, if it is not there; key and data are (type as nft has it, bytes)."""
    flags = _IS_MAP if data else 0
    parts = [text(1, in_table), text(2, name), number(3, flags), number(4, key[0]), number(5, key[1])]
    if data:
        parts += [number(6, data[0]), number(7, data[1])]
    if key[0] == IFNAME:
        parts.append(attribute(13, _HOST_ORDER))
    return _NEW_SET, NLM_F_CREATE, header(INET) + b"".join(parts) + number(10, number_of)


def add_elements(in_table: str, in_set: str, elements: Sequence[Element]) -> Request:
    """Add elements to one set; one that is there already is refused."""
    return (
        _NEW_ELEMENT,
        NLM_F_CREATE | NLM_F_EXCL,
        _elements(in_table, in_set, [_element(element) for element in elements]),
    )


def delete_elements(in_table: str, in_set: str, keys: Sequence[bytes]) -> Request:
    """Take elements away; one that is not there is refused."""
    return _DEL_ELEMENT, 0, _elements(in_table, in_set, [nested(1, nested(1, attribute(1, key))) for key in keys])


def list_elements(in_table: str, in_set: str) -> bytes:
    """The body that asks for all elements of a set (a dump of GET_ELEMENT)."""
    return header(INET) + text(1, in_table) + text(2, in_set)


def comment_of(*words: str) -> str:
    """Make a comment; of one that is too long the first word is cut, so that the rest is unique."""
    rest = " ".join(words[1:])
    kept = words[0].encode()[: max(_COMMENT_AT_MOST - len(rest.encode()) - 1, 0)].decode("utf-8", "ignore")
    return f"{kept} {rest}"


def parse_elements(in_set: str, body: bytes) -> list[Element]:
    """Read the elements from an answer to GET_ELEMENT."""
    found = []
    for _, listed in each_attribute(attributes(body, 4).get(3, b"")):
        parts = attributes(listed)
        data = attributes(parts.get(2, b""))
        chain = string(attributes(data[2]).get(2, b"")) if 2 in data else ""
        key = attributes(parts.get(1, b"")).get(1, b"")
        found.append(Element(in_set, key, data.get(1, b""), chain, _parse_comment(parts.get(6, b""))))
    return found


def name_table(name: str) -> bytes:
    """The body of a question about a table, and of the dump of its rules."""
    return header(INET) + text(1, name)


def parse_rule_chain(body: bytes) -> str:
    """Read from an answer to GET_RULE which chain the rule is in."""
    return string(attributes(body, 4).get(2, b""))


def parse_generation(body: bytes) -> int:
    """Read an answer to GET_GENERATION: a number that grows with every change of anybody's rules."""
    return int.from_bytes(attributes(body, 4).get(1, b""), "big")


def _elements(in_table: str, in_set: str, listed: Sequence[bytes]) -> bytes:
    return header(INET) + text(1, in_table) + text(2, in_set) + nested(3, *listed)


def _element(element: Element) -> bytes:
    parts = [nested(1, attribute(1, element.key))]
    if element.chain:
        parts.append(verdict_data(2, JUMP, element.chain))
    elif element.value:
        parts.append(value(2, element.value))
    if element.comment:
        comment = element.comment.encode() + b"\0"
        parts.append(attribute(6, bytes([_COMMENT, len(comment)]) + comment))
    return nested(1, *parts)


def _parse_comment(data: bytes) -> str:
    offset = 0
    while offset + 2 <= len(data):
        kind, length = data[offset], data[offset + 1]
        if kind == _COMMENT:
            return string(data[offset + 2 : offset + 2 + length])
        offset += 2 + length
    return ""
