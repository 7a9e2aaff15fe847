"""Rates out of samples."""

from __future__ import annotations

from crishim.stats.rates import SECOND, TOO_OLD, Rates


def test_from_the_second_sample_on() -> None:
    rates = Rates()
    assert rates.note("c", 1, 0, 100) is None
    assert rates.note("c", 1, 10 * SECOND, 100 + 5 * SECOND) == SECOND // 2
    assert rates.note("c", 1, 20 * SECOND, 100 + 6 * SECOND) == SECOND // 10, "of late, not since the first"


def test_two_askers_do_not_spoil_each_others_rate() -> None:
    rates = Rates()
    rates.note("c", 1, 0, 0)
    rates.note("c", 1, 10 * SECOND, 10 * SECOND)
    soon = 10 * SECOND + 1
    assert rates.note("c", 1, soon, 10 * SECOND) == 10 * SECOND * SECOND // soon


def test_samples_too_near_say_nothing() -> None:
    rates = Rates()
    rates.note("c", 1, 0, 0)
    assert rates.note("c", 1, SECOND // 100, 5) is None


def test_samples_of_long_ago_say_nothing() -> None:
    rates = Rates()
    rates.note("c", 1, 0, 0)
    assert rates.note("c", 1, TOO_OLD + 1, 5) is None
    assert rates.note("c", 1, TOO_OLD + 1 + SECOND, 5 + SECOND) == SECOND


def test_a_restart_begins_anew() -> None:
    rates = Rates()
    rates.note("c", 1, 0, 100)
    assert rates.note("c", 2, SECOND, 500) is None, "another process"
    assert rates.note("c", 2, 2 * SECOND, 10) is None, "another counter"
    assert rates.note("c", 2, 3 * SECOND, 10) == 0


def test_what_is_forgotten_and_how_old_the_newest_is() -> None:
    rates = Rates()
    assert rates.age("c", 5) == TOO_OLD
    rates.note("c", 1, 5, 100)
    assert (rates.age("c", 8), len(rates)) == (3, 1)
    rates.note("d", 1, 5, 100)
    rates.keep({"c"})
    assert (rates.age("c", 8), len(rates)) == (3, 1)
    rates.forget("c")
    rates.forget("c")
    assert len(rates) == 0
