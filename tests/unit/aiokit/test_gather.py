"""Side by side, to the end."""

from __future__ import annotations

import asyncio

import pytest

from crishim.aiokit.gather import gather_all, gather_two


async def test_nothing() -> None:
    await gather_all([])


async def test_two_give_both_their_answers() -> None:
    async def give(number: int) -> int:
        await asyncio.sleep(0)
        return number

    assert await gather_two(give(1), give(2)) == (1, 2)


async def test_the_first_error_is_raised_when_all_have_ended() -> None:
    done: list[int] = []

    async def work(number: int) -> None:
        for _ in range(number):
            await asyncio.sleep(0)
        done.append(number)
        if number:
            raise KeyError(number)

    with pytest.raises(KeyError, match="2"):
        await gather_all(work(number) for number in (2, 1, 0, 5))
    assert done == [0, 1, 2, 5]


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_cancelled_all_are_cancelled_and_awaited(times: int) -> None:
    ended: list[int] = []
    before = asyncio.all_tasks()

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    continue
            ended.append(number)

    task = asyncio.create_task(gather_all(work(number) for number in range(3)))
    await asyncio.sleep(0)
    for _ in range(times):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert ended == [0, 1, 2]
    assert asyncio.all_tasks() == before
