"""Checks for every store, while it is open."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Awaitable, Callable

from crishim.checkpoint.errors import StoreUnavailable
from crishim.checkpoint.record import Phase
from crishim.testing.checkpoint_contract.place import Place, by_id
from crishim.testing.checkpoint_contract.records import make_id, make_record, revision_of


async def check_empty_at_first(place: Place) -> None:
    """A new store holds nothing and sets nothing aside."""
    loaded = await place.contents()
    assert (loaded.records, loaded.set_aside) == ((), ())


async def check_put_is_loaded(place: Place) -> None:
    """Every field comes back; each sandbox has its own record."""
    full = make_record("full", containers=3)
    bare = dataclasses.replace(make_record("bare", containers=0), network=None, overhead=None, resources=None)
    async with place.store() as store:
        await store.put(full)
        await store.put(bare)
        assert by_id(await store.load()) == {full.id: full, bare.id: bare}
        assert by_id(await store.load()) == {full.id: full, bare.id: bare}


async def check_put_replaces(place: Place) -> None:
    """The last one counts, be it shorter or longer than the one before."""
    async with place.store() as store:
        for containers in (1, 8, 0, 2):
            record = make_record("pod", containers=containers, revision=containers)
            await store.put(record)
            assert (await store.load()).records == (record,)


async def check_delete(place: Place) -> None:
    """Deletes one, leaves the others; what is not there is no error; a deleted sandbox may come again."""
    kept, gone = make_record("kept"), make_record("gone")
    async with place.store() as store:
        await store.put(kept)
        await store.put(gone)
        await store.delete(gone.id)
        await store.delete(gone.id)
        await store.delete(make_id("never"))
        assert (await store.load()).records == (kept,)
        await store.put(gone)
        assert set(by_id(await store.load())) == {kept.id, gone.id}


async def check_odd_ids(place: Place) -> None:
    """An id is only text: it names no file elsewhere and is no part of a statement."""
    ids = ("..", ".", "a/b", "/etc/x", "a'; --", "A", "a", "%41", "ä", "x" * 128, "a b", "a.json", ".half")
    async with place.store() as store:
        for odd in ids:
            await store.put(dataclasses.replace(make_record("odd"), id=odd))
        assert set(by_id(await store.load())) == set(ids)
        for odd in ids:
            await store.delete(odd)
        assert (await store.load()).records == ()


async def check_values(place: Place) -> None:
    """None until put; any text; the last one counts; they are no records."""
    async with place.store() as store:
        assert await store.get_value("cgroup driver") is None
        for value in ("systemd", "", "zwei\nZeilen ä '"):
            await store.put_value("cgroup driver", value)
            assert await store.get_value("cgroup driver") == value
        await store.put_value("another/key", "x")
        assert await store.get_value("another/key") == "x"
        assert await store.get_value("cgroup driver") == "zwei\nZeilen ä '"
        assert (await store.load()).records == ()


async def check_future_version_is_set_aside(place: Place) -> None:
    """A record of a version that is not known is not read, but kept and named; the others are read."""
    known, future = make_record("known"), dataclasses.replace(make_record("future"), version=99)
    async with place.store() as store:
        await store.put(known)
        await store.put(future)
        loaded = await store.load()
        assert loaded.records == (known,)
        assert [aside.name for aside in loaded.set_aside] == [future.id]
        assert "99" in loaded.set_aside[0].reason
        assert loaded.set_aside[0].kept_at
        again = await store.load()
        assert (again.records, again.set_aside) == ((known,), ())
        await store.put(make_record("future"))
        assert len((await store.load()).records) == 2


async def check_calls_may_overlap(place: Place) -> None:
    """Many sandboxes at once, with loads in between: records are whole at any time, and all there at the end."""
    async with place.store() as store:

        async def churn(name: str) -> None:
            for revision in range(10):
                await store.put(make_record(name, revision=revision))

        async def look() -> None:
            for _ in range(5):
                for record in (await store.load()).records:
                    revision_of(record)

        await asyncio.gather(*(churn(f"pod-{number}") for number in range(20)), look(), look())
        records = (await store.load()).records
        assert [revision_of(record) for record in records] == [9] * 20


async def check_cancelled_put_is_whole_or_none(place: Place) -> None:
    """And never takes effect after a later call for the same sandbox."""
    chance = random.Random(7)  # noqa: S311 - the same choices each time
    async with place.store() as store:
        for revision in range(0, 200, 2):
            task = asyncio.create_task(store.put(make_record("pod", revision=revision)))
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            for record in (await store.load()).records:
                assert revision_of(record) <= revision
            await store.put(make_record("pod", revision=revision + 1))
            await _let_others_run()
            (record,) = (await store.load()).records
            assert revision_of(record) == revision + 1


async def check_cancelled_delete_does_not_come_late(place: Place) -> None:
    """A record that is put after a cancelled deletion stays."""
    record = make_record("pod", phase=Phase.STOPPED)
    async with place.store() as store:
        for turns in range(20):
            await store.put(record)
            task = asyncio.create_task(store.delete(record.id))
            for _ in range(turns % 4):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await store.put(record)
            await _let_others_run()
            assert (await store.load()).records == (record,)


async def check_closed_store_refuses(place: Place) -> None:
    """Before it is opened and after it was closed every call is StoreUnavailable; closing twice is no error."""
    store = place.make()
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "load": store.load,
        "put": lambda: store.put(make_record("pod")),
        "delete": lambda: store.delete("pod"),
        "get_value": lambda: store.get_value("key"),
        "put_value": lambda: store.put_value("key", "value"),
    }
    for state in ("not opened", "closed"):
        if state == "closed":
            await store.open()
            await store.put(make_record("pod"))
            await store.close()
            await store.close()
        for name, call in calls.items():
            try:
                await call()
            except StoreUnavailable:
                continue
            raise AssertionError(f"{name} succeeded on a store that is {state}")


async def check_close_finishes_what_was_begun(place: Place) -> None:
    """Puts under way when the store is closed have happened or are told as failed."""
    store = place.make()
    await store.open()
    tasks = [asyncio.create_task(store.put(make_record(f"pod-{number}"))) for number in range(20)]
    await asyncio.sleep(0)
    await store.close()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert result is None or isinstance(result, StoreUnavailable), result


async def _let_others_run() -> None:
    """Give something that a store may have left under way the chance to do harm."""
    for _ in range(20):
        await asyncio.sleep(0)
