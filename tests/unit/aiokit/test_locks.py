"""A lock per key, there only while it is used."""

from __future__ import annotations

import asyncio

import pytest

from crishim.aiokit.locks import KeyedLocks


async def test_one_holder_per_key_in_order_of_asking() -> None:
    locks, order = KeyedLocks(), list[str]()

    async def hold(key: str, name: str) -> None:
        async with locks.hold(key):
            order.append(f"{name} in")
            await asyncio.sleep(0)
            order.append(f"{name} out")

    await asyncio.gather(hold("a", "1"), hold("a", "2"), hold("a", "3"))
    assert order == ["1 in", "1 out", "2 in", "2 out", "3 in", "3 out"]
    assert len(locks) == 0


async def test_other_keys_are_free() -> None:
    locks = KeyedLocks()
    async with locks.hold("a"), locks.hold("b"):
        assert (locks.locked("a"), locks.locked("c")) == (True, False)
        assert sorted(locks.keys()) == ["a", "b"]
        assert repr(locks) == "<KeyedLocks ['a', 'b']>"
    assert (len(locks), locks.locked("a")) == (0, False)


@pytest.mark.parametrize("ending", ["error", "cancelled"])
async def test_a_lock_is_given_back_whatever_happens(ending: str) -> None:
    locks = KeyedLocks()

    async def hold() -> None:
        async with locks.hold("a"):
            if ending == "error":
                raise KeyError
            await asyncio.Event().wait()

    first, second = asyncio.create_task(hold()), asyncio.create_task(hold())
    await asyncio.sleep(0)
    second.cancel()  # while it waits for the first
    first.cancel()
    await asyncio.wait((first, second))
    first.cancelled() or first.exception()
    second.cancelled() or second.exception()
    assert len(locks) == 0
    async with locks.hold("a"):
        pass
