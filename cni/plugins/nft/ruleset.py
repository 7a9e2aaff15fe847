"""Changing the table: what is in it is remembered, and read again whenever anybody else changed any rule.

Each change is one transaction that the kernel takes only if the rules are those that we know (their generation), so
that a flush by somebody else, or another process of ours, is seen at the next change without a question beforehand.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from cni.plugins.nft import encode, route_localnet, skeleton
from cni.plugins.nft.encode import Element, Request
from cni.plugins.nft.netlink import NETLINK_NETFILTER, NLM_F_ACK, NLM_F_DUMP, Netlink, NetlinkError

Elements = Mapping[tuple[str, bytes], Element]
"""All elements by set and key."""

_TRIES = 8
_PASSING = (errno.EINTR, errno.EAGAIN, errno.ERESTART)
_NOT_AS_KNOWN = (errno.ENOENT, errno.EEXIST, errno.EBUSY)


@dataclass(frozen=True)
class Change:
    """Elements to take away and to add, in one transaction."""

    remove: tuple[Element, ...] = ()
    add: tuple[Element, ...] = ()


@dataclass
class _Known:
    """The table as it was at a generation of the rules."""

    generation: int
    present: bool = False
    intact: bool = False
    """Whether the rules of the permanent chains are there."""
    chains: set[str] = field(default_factory=set)
    """Chains of subnets, with their rules."""
    elements: dict[tuple[str, bytes], Element] = field(default_factory=dict)


class Ruleset:
    """The table in one network namespace.  Its methods may be called by several threads, all in that namespace."""

    def __init__(self) -> None:
        """Connect to the namespace of the calling thread.  Raises NetlinkError."""
        self._lock = threading.Lock()
        # One socket for good: its end would wait until the kernel has freed all that was taken away (15 ms).
        self._link = Netlink(NETLINK_NETFILTER, "nftables")
        self._known: _Known | None = None
        self.reads = 0
        """How often the table was read anew because somebody else had changed rules."""

    def unchanged(self) -> bool:
        """Whether nobody else changed any rule since the table was last read or changed.  Raises NetlinkError."""
        with self._lock:
            return self._known is not None and _generation(self._link) == self._known.generation

    def change(self, plan: Callable[[Elements], Change]) -> None:
        """Do what `plan` wants, given what there is; the rules are put back where they are gone.

        `plan` may be asked more than once; what it raises passes through with nothing changed.  With the last
        attachment's elements the table goes.  Raises NetlinkError.
        """
        with self._lock:
            for tries in range(_TRIES):
                try:
                    # What cannot be changed, perhaps made by another version, is made anew.
                    if self._try(plan, anew=tries > _TRIES // 2):
                        return
                except NetlinkError as error:
                    self._known = None
                    if error.errno not in (*_PASSING, *_NOT_AS_KNOWN) or tries == _TRIES - 1:
                        raise
            raise NetlinkError(errno.EAGAIN, "nftables: rules keep changing")

    def _try(self, plan: Callable[[Elements], Change], *, anew: bool) -> bool:
        """Do it once; False: somebody changed rules, try again.  Raises NetlinkError."""
        known = self._known = self._known or self._read()
        wanted = plan(known.elements)
        after = _after(known.elements, wanted)
        requests, removed = _requests(known, wanted, after, anew=anew)
        if not requests:
            unchanged = _generation(self._link) == known.generation
            self._known = known if unchanged else None
            return unchanged
        _commit(self._link, known.generation, requests)
        self._known = _Known(known.generation + 1)
        if removed:
            _open_loopback_no_more(after)
        else:
            self._known.present = self._known.intact = True
            self._known.chains = {element.chain for element in after.values() if element.chain}
            self._known.elements = after
        return True

    def elements(self) -> Elements:
        """Return what the table holds now.  Raises NetlinkError."""
        with self._lock:
            return dict(self._now().elements)

    def intact(self) -> bool:
        """Whether the table's own rules are as they should be now.  Raises NetlinkError."""
        with self._lock:
            known = self._now()
            needed = {element.chain for element in known.elements.values() if element.chain}
            return known.intact and needed <= known.chains

    def _now(self) -> _Known:
        if self._known is None or _generation(self._link) != self._known.generation:
            self._known = self._read()
        return self._known

    def _read(self) -> _Known:
        self.reads += 1
        return _read(self._link)


_current: tuple[tuple[int, int], Ruleset] | None = None
_current_lock = threading.Lock()


def ruleset() -> Ruleset:
    """Return the ruleset of the network namespace that the calling thread is in."""
    global _current
    status = os.stat("/proc/thread-self/ns/net")
    key = (status.st_dev, status.st_ino)
    with _current_lock:
        if _current is None or _current[0] != key:
            _current = (key, Ruleset())
        return _current[1]


def _after(before: Elements, change: Change) -> dict[tuple[str, bytes], Element]:
    after = dict(before)
    for element in change.remove:
        del after[element.set, element.key]
    for element in change.add:
        after[element.set, element.key] = element
    return after


def _requests(known: _Known, change: Change, after: Elements, *, anew: bool) -> tuple[list[Request], bool]:
    """Return the requests that lead from what is known to `after`, and whether they take the table away."""
    if all(element.set == skeleton.GUARDED for element in after.values()):
        return ([encode.delete_table(skeleton.TABLE)] if known.present else []), True
    if anew:
        known = replace(known, intact=False, chains=set(), elements={})
        change = Change(add=tuple(after.values()))
    requests: list[Request] = [encode.delete_table(skeleton.TABLE)] if anew and known.present else []
    needed = {element.chain for element in after.values() if element.chain}
    if not known.intact:
        requests += skeleton.make_skeleton(present=known.present and not anew)
        requests += skeleton.make_chains(sorted(needed))
    else:
        requests += skeleton.make_chains(sorted(needed - known.chains))
    for name, removed in _by_set(change.remove).items():
        requests.append(encode.delete_elements(skeleton.TABLE, name, [element.key for element in removed]))
    for name, added in _by_set(change.add).items():
        requests.append(encode.add_elements(skeleton.TABLE, name, added))
    requests += [encode.delete_chain(skeleton.TABLE, name) for name in sorted(known.chains - needed)]
    return requests, False


def _open_loopback_no_more(elements: Elements) -> None:
    """With the guard gone nothing may be let in any more."""
    for element in elements.values():
        route_localnet.forbid(element.key.rstrip(b"\0").decode())


def _by_set(elements: Iterable[Element]) -> dict[str, list[Element]]:
    groups: dict[str, list[Element]] = {}
    for element in elements:
        groups.setdefault(element.set, []).append(element)
    return groups


def _commit(link: Netlink, generation: int, requests: list[Request]) -> None:
    kind, flags, body = requests[-1]
    acknowledged = [*requests[:-1], (kind, flags | NLM_F_ACK, body)]
    link.send([encode.begin(generation), *acknowledged, encode.end()])


def _generation(link: Netlink) -> int:
    answers = link.ask(encode.GET_GENERATION, encode.header(encode.ANY))
    return encode.parse_generation(answers[0].body)


def _read(link: Netlink) -> _Known:
    """Read the table, and again if somebody changed rules meanwhile."""
    for _ in range(_TRIES):
        known = _Known(_generation(link))
        try:
            rules = Counter(
                encode.parse_rule_chain(answer.body)
                for answer in link.ask(encode.GET_RULE, encode.name_table(skeleton.TABLE), NLM_F_DUMP)
            )
            for name in skeleton.SETS:
                for answer in link.ask(encode.GET_ELEMENT, encode.list_elements(skeleton.TABLE, name), NLM_F_DUMP):
                    for element in encode.parse_elements(name, answer.body):
                        known.elements[element.set, element.key] = element
            known.present = True
        except NetlinkError as error:
            if error.errno == errno.EINTR:
                continue
            if error.errno != errno.ENOENT:
                raise
            # No table, or one that lacks a set: `present` decides only whether there are rules to be flushed.
            known.present = _has_table(link)
            rules = Counter()
        if _generation(link) == known.generation:
            known.intact = all(rules[name] == len(expected) for name, expected in skeleton.RULES.items())
            known.chains = {name for name, count in rules.items() if _is_whole(name, count)}
            return known
    raise NetlinkError(errno.EAGAIN, "nftables: rules keep changing")


def _has_table(link: Netlink) -> bool:
    try:
        link.ask(encode.GET_TABLE, encode.name_table(skeleton.TABLE))
    except NetlinkError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    return True


def _is_whole(name: str, count: int) -> bool:
    if name in skeleton.RULES:
        return False
    try:
        return len(skeleton.chain_rules(name)) == count
    except ValueError:
        return False
