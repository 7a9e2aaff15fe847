"""Versions of the CNI specification and what each of them allows."""

from __future__ import annotations

SUPPORTED = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
"""Versions in which this library can speak to plugins, oldest first."""

NEWEST = SUPPORTED[-1]


def has_prev_result_on_delete(version: str) -> bool:
    """Whether DEL carries the result of ADD (since 0.4.0)."""
    return _number(version) >= (0, 4, 0)


def has_check(version: str) -> bool:
    """Whether there is the verb CHECK (since 0.4.0)."""
    return _number(version) >= (0, 4, 0)


def has_gc_and_status(version: str) -> bool:
    """Whether there are the verbs GC and STATUS (since 1.1.0)."""
    return _number(version) >= (1, 1, 0)


def has_interfaces(version: str) -> bool:
    """Whether a result tells interfaces and any number of addresses (since 0.3.0), not `ip4` and `ip6`."""
    return _number(version) >= (0, 3, 0)


def tells_address_family(version: str) -> bool:
    """Whether an entry of a result's `ips` says `version: "4"` or `"6"` (until 0.4.0)."""
    return _number(version) < (1, 0, 0)


def best(offered: tuple[str, ...]) -> str | None:
    """Return the newest of `offered` that is supported, None when none is."""
    return max((version for version in offered if version in SUPPORTED), key=_number, default=None)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
