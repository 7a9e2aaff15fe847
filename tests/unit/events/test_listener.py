"""A listener's backlog."""

from __future__ import annotations

import pytest

from crishim.errors import ListenerTooSlow
from crishim.events.listener import Listener


def make(bound: int = 400) -> tuple[Listener, list[int]]:
    lost: list[int] = []
    return Listener(bound, lambda listener: lost.append(-1), lost.append), lost


async def read(listener: Listener, count: int) -> list[bytes]:
    return [await anext(listener) for _ in range(count)]


async def test_in_order_and_all_as_long_as_there_is_room() -> None:
    listener, lost = make()
    for number in range(10):
        listener.put("a", b"%10d" % number)
    assert await read(listener, 10) == [b"%10d" % number for number in range(10)]
    assert lost == []


async def test_a_slow_one_gets_the_newest_of_each_object(caplog: pytest.LogCaptureFixture) -> None:
    listener, lost = make()
    for number in range(11):
        listener.put("ab"[number % 2], b"%10d" % number)
    assert lost == [9]
    assert await read(listener, 2) == [b"%10d" % 9, b"%10d" % 10]
    assert "9 events" in caplog.text
    listener.put("a", b"later")
    assert await anext(listener) == b"later"


async def test_looking_for_old_ones_is_not_done_for_each_event() -> None:
    listener, lost = make(4000)
    for number in range(2000):
        listener.put(f"object {number % 50}", b"%10d" % number)
    assert sum(lost) <= 1950
    assert len(lost) < 60, "a threshold that stayed where it was would be passed by each"
    assert (await anext(listener)).strip().isdigit()


async def test_cut_past_the_bound_only(caplog: pytest.LogCaptureFixture) -> None:
    listener, lost = make(400)
    for number in range(40):
        listener.put(str(number), b"x" * 10)
    assert lost == []
    listener.put("one more", b"x" * 10)
    assert lost == [41]
    assert "0 bytes" in repr(listener)
    listener.put("another", b"x")
    with pytest.raises(ListenerTooSlow):
        await anext(listener)


async def test_closed_it_ends_after_what_was_there() -> None:
    listener, lost = make()
    listener.put("a", b"last")
    listener.close()
    listener.put("a", b"too late")
    assert [event async for event in listener] == [b"last"]
    await listener.aclose()
    assert lost == [-1], "it has left"
