"""Whose an element is: its comment names network, container and interface."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cni.plugins.nft.encode import Element, comment_of
from cni.plugins.nft.ruleset import Change, Elements


def owner(network: str, container_id: str, ifname: str) -> str:
    """Return the comment of an attachment's elements."""
    return comment_of(network, container_id, ifname)


def owned(elements: Elements, sets: Collection[str], comment: str) -> list[Element]:
    """Return the elements of one owner in some of the sets."""
    return [element for element in elements.values() if element.comment == comment and element.set in sets]


def stale(elements: Elements, sets: Collection[str], network: str, valid: frozenset[tuple[str, str]]) -> list[Element]:
    """Return the elements in some of the sets that are of `network` and of none of its `valid` attachments."""
    found = []
    for element in elements.values():
        _, _, rest = element.comment.rpartition(" ")
        container_id = element.comment.removesuffix(f" {rest}").rpartition(" ")[2]
        of_network = element.comment == owner(network, container_id, rest)
        if element.set in sets and of_network and (container_id, rest) not in valid:
            found.append(element)
    return found


def replacing(elements: Elements, wanted: Iterable[Element], old: Iterable[Element]) -> Change:
    """Return what makes `wanted` of `old`, and of whatever else has the same keys."""
    new = {(element.set, element.key): element for element in wanted}
    present = {(element.set, element.key): element for element in old}
    present |= {key: elements[key] for key in new if key in elements}
    return Change(
        remove=tuple(element for key, element in present.items() if new.get(key) != element),
        add=tuple(element for key, element in new.items() if present.get(key) != element),
    )
