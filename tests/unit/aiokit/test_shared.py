"""One piece of work for all who ask at once."""

from __future__ import annotations

import asyncio

import pytest

from crishim.aiokit.shared import SharedWork


class Work:
    """Counts how often it was begun and given up; ends when it is told to."""

    def __init__(self) -> None:
        self.begun = 0
        self.given_up = 0
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            self.given_up += 1
            raise
        if self.error is not None:
            raise self.error
        return number


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_all_who_ask_get_the_one_result() -> None:
    shared, work = SharedWork[int](), Work()
    askers = [asyncio.create_task(shared.join("k", work, name="work")) for _ in range(5)]
    await turns()
    work.go.set()
    assert await asyncio.gather(*askers) == [1] * 5
    assert (work.begun, len(shared)) == (1, 0)
    assert await shared.join("k", work, name="work") == 2


async def test_an_error_is_everybodys() -> None:
    shared, work = SharedWork[int](), Work()
    work.error = KeyError("x")
    work.go.set()
    results = await asyncio.gather(*(shared.join("k", work, name="work") for _ in range(3)), return_exceptions=True)
    assert results == [work.error] * 3
    assert len(shared) == 0


async def test_keys_are_apart() -> None:
    shared, work = SharedWork[int](), Work()
    work.go.set()
    assert sorted(await asyncio.gather(*(shared.join(k, work, name="work") for k in "ab"))) == [1, 2]


async def test_work_goes_on_while_one_asker_is_left_and_ends_with_the_last() -> None:
    shared, work = SharedWork[int](), Work()
    askers = [asyncio.create_task(shared.join("k", work, name="work")) for _ in range(3)]
    await turns()
    for asker in askers[:2]:
        asker.cancel()
    await turns()
    assert work.given_up == 0
    askers[2].cancel()
    askers[2].cancel()
    await asyncio.wait(askers)
    assert (work.given_up, len(shared)) == (1, 0)


async def test_a_newcomer_does_not_join_what_is_being_given_up() -> None:
    shared, work = SharedWork[int](), Work()
    first = asyncio.create_task(shared.join("k", work, name="work"))
    await turns()
    first.cancel()
    await asyncio.sleep(0)
    second = asyncio.create_task(shared.join("k", work, name="work"))
    await turns()
    work.go.set()
    assert await second == 2
    assert first.cancelled()
    assert len(shared) == 0


@pytest.mark.parametrize("again", [1, 2, 3])
async def test_cancelled_twice_leaves_no_task(again: int) -> None:
    shared, work = SharedWork[int](), Work()
    before = asyncio.all_tasks()
    asker = asyncio.create_task(shared.join("k", work, name="work"))
    await turns()
    asker.cancel()
    await turns(again)
    asker.cancel()
    await asyncio.wait((asker,))
    assert asyncio.all_tasks() == before
    assert work.given_up == 1
