from __future__ import annotations

import asyncio

import pytest

from crishim.errors import EngineNotFound
from crishim.telemetry.durations import BOUNDS, Durations, Operations


def test_buckets_hold_all_up_to_their_bound() -> None:
    durations = Durations()
    for seconds in (0.0, 0.0005, 0.0006, 59.0, 1000.0):
        durations.note(seconds)
    buckets = durations.buckets()
    assert [bound for bound, _ in buckets] == [*map(str, BOUNDS), "+Inf"]
    assert (dict(buckets)["0.0005"], dict(buckets)["0.001"], dict(buckets)["30.0"]) == (2, 3, 3)
    assert (dict(buckets)["60.0"], dict(buckets)["+Inf"]) == (4, 5)
    assert durations.seconds == pytest.approx(1059.0011)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (EngineNotFound("none"), "NOT_FOUND"),
        (asyncio.CancelledError(), "CANCELLED"),
        (ValueError("ours"), "INTERNAL"),
    ],
)
def test_a_failure_is_counted_by_its_kind_and_goes_on(error: BaseException, kind: str) -> None:
    operations = Operations()
    with operations.timed("inspect"):
        pass
    with pytest.raises(type(error)), operations.timed("inspect"):
        raise error
    assert operations.failures == {("inspect", kind): 1}
    assert operations.durations["inspect"].buckets()[-1] == ("+Inf", 2)
