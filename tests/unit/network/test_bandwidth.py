"""Bandwidth annotations."""

from __future__ import annotations

from fractions import Fraction

import pytest

from crishim.errors import InvalidArgument
from crishim.network.bandwidth import EGRESS, INGRESS, make_bandwidth, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10M", 10_000_000),
        ("1.5k", 1_500),
        (".5G", 500_000_000),
        ("1.", 1),
        ("2Ki", 2048),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("12e-1", Fraction(12, 10)),
        ("100m", Fraction(1, 10)),
        ("+5", 5),
        ("-5", -5),
    ],
)
def test_quantities(text, value):
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["", "M", "10 M", "10MB", "1e", "0x10", "1e9999", "٣", "1,5", "nan", "1" * 41])
def test_no_quantities(text):
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


def test_limits():
    assert make_bandwidth({}) == {}
    assert make_bandwidth({INGRESS: "10M"}) == {"ingressRate": 10_000_000, "ingressBurst": 2**31 - 1}
    assert make_bandwidth({INGRESS: "1000.5", EGRESS: "1P"}) == {
        "ingressRate": 1001,
        "ingressBurst": 2**31 - 1,
        "egressRate": 10**15,
        "egressBurst": 2**31 - 1,
    }


@pytest.mark.parametrize("text", ["999", "1001T", "0", "-1M", "fast"])
def test_refused(text):
    with pytest.raises(InvalidArgument) as caught:
        make_bandwidth({EGRESS: text})
    assert caught.value.field == "config.annotations[kubernetes.io/egress-bandwidth]"
