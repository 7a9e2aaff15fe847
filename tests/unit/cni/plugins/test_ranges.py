"""Ranges of addresses, and the order in which they are given out."""

from __future__ import annotations

from ipaddress import ip_address
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cni.plugins.api import CallFailed
from cni.plugins.host_local.ranges import RangeSet, candidates, check_disjoint, read_range, read_sets
from cni.plugins.options import Reader


def sets(*ranges: list[dict[str, Any]]) -> tuple[RangeSet, ...]:
    return read_sets(Reader({"ranges": list(ranges)}, "ipam"), "ranges")


def addresses(ranges: RangeSet, last: str | None = None) -> list[str]:
    return [str(address) for address, _ in candidates(ranges, ip_address(last) if last else None)]


def test_network_gateway_and_broadcast_are_left_out() -> None:
    (one,) = sets([{"subnet": "10.0.0.0/29"}])
    assert addresses(one) == [f"10.0.0.{n}" for n in range(2, 7)]


def test_ipv6_has_no_broadcast() -> None:
    (one,) = sets([{"subnet": "fd00::/125"}])
    assert addresses(one) == [f"fd00::{n}" for n in range(2, 8)]


def test_after_the_last_and_around() -> None:
    (one,) = sets([{"subnet": "10.0.0.0/29"}, {"subnet": "10.0.1.0/29", "rangeStart": "10.0.1.5"}])
    assert addresses(one, "10.0.0.5") == [
        "10.0.0.6",
        "10.0.1.5",
        "10.0.1.6",
        "10.0.0.2",
        "10.0.0.3",
        "10.0.0.4",
        "10.0.0.5",
    ]
    assert addresses(one, "10.0.1.6")[0] == "10.0.0.2"
    assert addresses(one, "192.0.2.1") == addresses(one)


def test_a_huge_range_costs_nothing() -> None:
    (one,) = sets([{"subnet": "fd00::/8"}])
    assert len(list(islice(candidates(one, None), 3))) == 3


@given(st.integers(24, 30), st.integers(0, 255), st.integers(0, 255))
def test_each_address_once(prefix: int, last: int, gateway: int) -> None:
    one = read_range(Reader({"subnet": f"10.0.0.0/{prefix}", "gateway": f"10.0.0.{gateway}"}))
    given_out = addresses((one,), f"10.0.0.{last}")
    assert len(set(given_out)) == len(given_out)
    assert set(given_out) == {f"10.0.0.{n}" for n in range(1, (1 << (32 - prefix)) - 1)} - {f"10.0.0.{gateway}"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({}, "subnet: is missing"),
        ({"subnet": "x"}, "subnet: "),
        ({"subnet": "10.0.0.1/24"}, "subnet: 10.0.0.1/24 has host bits set"),
        ({"subnet": "10.0.0.0/31"}, "subnet: 10.0.0.0/31 is too small"),
        ({"subnet": "10.0.0.0/24", "rangeStart": "10.0.1.1"}, "rangeStart: 10.0.1.1 is not in 10.0.0.0/24"),
        ({"subnet": "10.0.0.0/24", "rangeEnd": "fd00::1"}, "rangeEnd: fd00::1 is not in"),
        (
            {"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.9", "rangeEnd": "10.0.0.8"},
            "rangeEnd: 10.0.0.8 comes before",
        ),
        ({"subnet": "10.0.0.0/24", "gateway": "x"}, "gateway: 'x' is no address"),
        ({"subnet": "10.0.0.0/24", "start": "10.0.0.9"}, "start: this plugin has no such option"),
    ],
)
def test_refused(value: dict[str, Any], words: str) -> None:
    with pytest.raises(CallFailed) as caught:
        read_range(Reader(value))
    assert str(caught.value).startswith(words)


def test_sets_are_refused_with_their_position() -> None:
    with pytest.raises(CallFailed, match=r"ipam\.ranges\[1\]\[0\]\.subnet"):
        sets([{"subnet": "10.0.0.0/24"}], [{"subnet": 5}])
    with pytest.raises(CallFailed, match=r"ipam\.ranges\[0\]: mixes"):
        sets([{"subnet": "10.0.0.0/24"}, {"subnet": "fd00::/64"}])
    with pytest.raises(CallFailed, match="overlap"):
        check_disjoint(sets([{"subnet": "10.0.0.0/24"}], [{"subnet": "10.0.0.0/16"}]), "x")
