"""Letting containers out: packets that leave their subnet get an address of the host (the bridge's `ipMasq`).

What stays in the subnet, and multicast, keeps its source.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from cni.plugins.api import CallFailed
from cni.plugins.nft import skeleton
from cni.plugins.nft.encode import Element
from cni.plugins.nft.owner import owned, owner, replacing, stale
from cni.plugins.nft.ruleset import Change, ruleset

_SETS = frozenset(skeleton.MASQUERADE.values())
_NOT_AS_MADE = 100


def add(network: str, container_id: str, ifname: str, addresses: Sequence[str]) -> None:
    """Let packets from `addresses` (with prefix length, `10.1.0.5/24`) out; nothing else of this attachment.

    Raises OSError.
    """
    wanted = make_elements(owner(network, container_id, ifname), addresses)
    ruleset().change(lambda now: replacing(now, wanted, owned(now, _SETS, owner(network, container_id, ifname))))


def remove(network: str, container_id: str, ifname: str) -> None:
    """Take away what `add` made; what is gone is no error.  Raises OSError."""
    comment = owner(network, container_id, ifname)
    ruleset().change(lambda now: Change(remove=tuple(owned(now, _SETS, comment))))


def check(network: str, container_id: str, ifname: str, addresses: Sequence[str]) -> None:
    """Raise CallFailed when what `add` made is not there; OSError."""
    rules = ruleset()
    now = rules.elements()
    for element in make_elements(owner(network, container_id, ifname), addresses):
        if now.get((element.set, element.key)) != element:
            address = ipaddress.ip_address(element.key)
            raise CallFailed(_NOT_AS_MADE, f"packets from {address} are not masqueraded", f"set {element.set}")
    if not rules.intact():
        raise CallFailed(_NOT_AS_MADE, f"the rules of table inet {skeleton.TABLE} are not what they should be")


def gc(network: str, valid: frozenset[tuple[str, str]]) -> None:
    """Take away what belongs to no attachment (container id, interface name) of `valid`.  Raises OSError."""
    ruleset().change(lambda now: Change(remove=tuple(stale(now, _SETS, network, valid))))


def make_elements(comment: str, addresses: Sequence[str]) -> list[Element]:
    """Return the elements for addresses with prefix lengths.  Pure."""
    elements = []
    for text in addresses:
        address = ipaddress.ip_interface(text)
        chain = skeleton.masquerade_chain(address.network)
        elements.append(Element(skeleton.MASQUERADE[address.version], address.packed, chain=chain, comment=comment))
    return elements
