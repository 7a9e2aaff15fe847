"""Looking, and only looking, at chains of other programs in the kernel's nftables, iptables' own among them."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass

from cni.plugins.nft import encode
from cni.plugins.nft.expressions import DROP, IPV4, IPV6
from cni.plugins.nft.netlink import (
    NETLINK_NETFILTER,
    Netlink,
    NetlinkError,
    attributes,
    each_attribute,
    string,
    text,
)

_UNCONDITIONAL = ("counter", "immediate", "log", "reject", "target")
_FORWARD = 2  # NF_INET_FORWARD
_FAMILIES = {1: "inet", IPV4: "ip", IPV6: "ip6"}


@dataclass(frozen=True)
class Chain:
    """A chain of somebody else's, with as much of its rules as says whether packets get through."""

    family: str
    table: str
    name: str
    hook: int | None
    """Where the kernel calls it (`NF_INET_*`), None: it does not."""
    drops: bool
    """Whether its policy is to drop, or a rule in it drops or rejects whatever comes that far."""
    rules: tuple[bytes, ...] = ()
    """Its rules as the kernel tells them; names of chains and comments can be found in there."""

    def mentions(self, word: str) -> int:
        """Return how many of the rules hold this text, as a comment or as the name of a chain."""
        return sum(word.encode() + b"\0" in rule for rule in self.rules)


def find_chain(version: int, table: str, name: str) -> Chain | None:
    """Return a chain of a table of IPv4 or IPv6; None: there is none.  Raises OSError."""
    family = IPV4 if version == 4 else IPV6
    with Netlink(NETLINK_NETFILTER, "nftables") as link:
        try:
            answers = link.ask(_GET_CHAIN, encode.header(family) + text(1, table) + text(3, name))
            body = encode.header(family) + text(1, table) + text(2, name)
            rules = tuple(answer.body for answer in link.dump_all(encode.GET_RULE, body))
        except NetlinkError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
    return _chain(answers[0].body, rules)


def forward_chains_that_drop() -> list[Chain]:
    """Return all chains of the forward hook whose policy is to drop.  Raises OSError."""
    with Netlink(NETLINK_NETFILTER, "nftables") as link:
        chains = [_chain(answer.body) for answer in link.dump_all(_GET_CHAIN, encode.header(encode.ANY))]
    return [
        chain for chain in chains if chain.hook == _FORWARD and chain.drops and chain.family in ("inet", "ip", "ip6")
    ]


_GET_CHAIN = 0xA04


def _chain(body: bytes, rules: tuple[bytes, ...] = ()) -> Chain:
    parts = attributes(body, 4)
    hook = attributes(parts[4]).get(1) if 4 in parts else None
    policy = int.from_bytes(parts[5], "big") if 5 in parts else None
    return Chain(
        family=_FAMILIES.get(body[0], str(body[0])),
        table=string(parts.get(1, b"")),
        name=string(parts.get(3, b"")),
        hook=None if hook is None else int.from_bytes(hook, "big"),
        drops=policy == DROP or any(map(_drops, rules)),
        rules=rules,
    )


def _drops(rule: bytes) -> bool:
    parts = list(_expressions(rule))
    if not all(name in _UNCONDITIONAL for name, _ in parts):
        return False  # it has somebody in mind, and it is not ours to overrule it
    for name, data in parts:
        if name == "reject" or (name == "target" and string(data.get(1, b"")) == "REJECT"):
            return True
        if name == "immediate":
            verdict = attributes(attributes(data.get(2, b"")).get(2, b"")).get(1)
            if verdict == DROP.to_bytes(4, "big"):
                return True
    return False


def _expressions(rule: bytes) -> Iterator[tuple[str, dict[int, bytes]]]:
    for _, element in each_attribute(attributes(rule, 4).get(4, b"")):
        parts = attributes(element)
        yield string(parts.get(1, b"")), attributes(parts.get(2, b""))
