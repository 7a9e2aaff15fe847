"""Bandwidth limits of a pod, from its annotations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from crishim.errors import InvalidArgument

INGRESS = "kubernetes.io/ingress-bandwidth"
"""Annotation: bits per second that the pod may receive, as a Kubernetes quantity (`10M`)."""
EGRESS = "kubernetes.io/egress-bandwidth"
"""Annotation: bits per second that the pod may send."""

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)\Z", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LOWEST, _HIGHEST = 1_000, 10**15  # what Kubernetes accepts for these annotations
_BURST = 2**31 - 1  # bits; the largest that every bandwidth plugin takes: the rate alone limits


def parse_quantity(text: str) -> Fraction:
    """Read a Kubernetes quantity: `1.5G`, `512Ki`, `1e6`, `100m`.  Raises ValueError."""
    match = _QUANTITY.match(text)
    if match is None or len(text) > 40:
        raise ValueError(f"{text[:40]!r} is not a quantity such as 10M")
    number, exponent, suffix = match.groups()
    if exponent:
        return Fraction(number) * Fraction(10) ** int(exponent[1:])
    if suffix in _BINARY:
        return Fraction(number) * (1 << _BINARY[suffix])
    return Fraction(number) * Fraction(10) ** _DECIMAL[suffix or ""]


def make_bandwidth(annotations: Mapping[str, str]) -> dict[str, int]:
    """Return CNI's capability argument `bandwidth` (bits per second, bits), {} where no limit is asked for.

    Raises InvalidArgument naming the annotation.
    """
    limits: dict[str, int] = {}
    for annotation, word in ((INGRESS, "ingress"), (EGRESS, "egress")):
        text = annotations.get(annotation)
        if text is None:
            continue
        field = f"config.annotations[{annotation}]"
        try:
            rate = ceil(parse_quantity(text))
        except ValueError as error:
            raise InvalidArgument(str(error), field=field) from error
        if not _LOWEST <= rate <= _HIGHEST:
            raise InvalidArgument(f"{text} is not between 1k and 1P bits per second", field=field)
        limits |= {f"{word}Rate": rate, f"{word}Burst": _BURST}
    return limits
