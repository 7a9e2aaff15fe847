"""Records: the index at once, the store in order, and what could not be written is made good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace

import pytest

from crishim.aiokit.background import Background
from crishim.checkpoint.errors import StoreUnavailable
from crishim.checkpoint.memory import MemoryStore
from crishim.checkpoint.record import Phase, SandboxRecord
from crishim.errors import CheckpointFailed
from crishim.runtime.index import Index
from crishim.runtime.objects import Sandbox
from crishim.runtime.records import Records


class SlowStore(MemoryStore):
    """Takes a while, fails on order, and finds writes of one sandbox that overlap."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = 0
        self.writes: list[str] = []
        self.under_way: set[str] = set()
        self.hangs = False

    async def _write(self, sandbox_id: str, what: str) -> None:
        assert sandbox_id not in self.under_way, "two writes of one sandbox at once"
        self.under_way.add(sandbox_id)
        self.writes.append(what)
        try:
            for _ in range(5):
                await asyncio.sleep(0)
            if self.hangs:
                await asyncio.Event().wait()
        finally:
            self.under_way.discard(sandbox_id)
        if self.fails:
            self.fails -= 1
            raise StoreUnavailable("disk full")

    async def put(self, record: SandboxRecord) -> None:
        await self._write(record.id, f"put {record.phase}")
        await super().put(record)

    async def delete(self, sandbox_id: str) -> None:
        await self._write(sandbox_id, "delete")
        await super().delete(sandbox_id)

    async def held(self) -> dict[str, Phase]:
        return {record.id: record.phase for record in (await self.load()).records}


@dataclass
class Room:
    store: SlowStore = field(default_factory=SlowStore)
    index: Index = field(default_factory=Index)
    background: Background = field(default_factory=Background)

    def __post_init__(self) -> None:
        self.records = Records(self.index, self.store, self.background)

    def phase(self) -> Phase:
        return self.index.need_sandbox("s1").record.phase


@pytest.fixture
async def room(make_sandbox: Callable[..., Sandbox]) -> AsyncIterator[Room]:
    room = Room()
    await room.store.open()
    room.records.add(make_sandbox("s1", phase=Phase.CREATING))
    await room.records.flush()
    room.store.writes.clear()
    yield room
    assert len(room.background) == 0
    assert room.store.under_way == set()


def to(phase: Phase) -> Callable[[SandboxRecord], SandboxRecord]:
    return lambda record: replace(record, phase=phase)


async def test_the_index_is_changed_at_once_the_store_on_return(room: Room) -> None:
    task = asyncio.create_task(room.records.change("s1", to(Phase.STOPPED)))
    await asyncio.sleep(0)
    assert room.phase() is Phase.STOPPED
    assert await room.store.held() == {"s1": Phase.CREATING}
    await task
    assert await room.store.held() == {"s1": Phase.STOPPED}


async def test_no_change_no_write(room: Room) -> None:
    await room.records.change("s1", to(Phase.CREATING))
    await room.records.change("gone", to(Phase.STOPPED))
    assert room.store.writes == []


async def test_changes_at_once_share_writes_and_none_is_lost(room: Room) -> None:
    def add(number: int) -> Callable[[SandboxRecord], SandboxRecord]:
        return lambda record: replace(record, started_at=record.started_at + number)

    await asyncio.gather(*(room.records.change("s1", add(number)) for number in (1, 10, 100, 1000)))
    assert room.index.need_sandbox("s1").record.started_at == 3111
    (record,) = (await room.store.load()).records
    assert record.started_at == 3111
    assert len(room.store.writes) == 1


async def test_a_failed_write_is_told_and_made_good_by_the_next(room: Room) -> None:
    room.store.fails = 1
    with pytest.raises(CheckpointFailed):
        await room.records.change("s1", to(Phase.STOPPED))
    assert room.phase() is Phase.STOPPED
    assert list(room.records.unsaved) == ["s1"]
    assert repr(room.records) == "<Records 1 unsaved>"
    await room.records.change("s1", to(Phase.STOPPED))
    assert await room.store.held() == {"s1": Phase.STOPPED}
    assert room.records.unsaved == ()


async def test_what_goes_on_without_the_store_is_made_good_by_flush(room: Room) -> None:
    room.store.fails = 2
    await room.records.try_change("s1", to(Phase.STOPPED))
    await room.records.flush()
    assert room.records.unsaved == ("s1",)
    await room.records.flush()
    assert await room.store.held() == {"s1": Phase.STOPPED}


@pytest.mark.parametrize("turns", range(1, 9))
async def test_a_cancelled_change_is_written_all_the_same(room: Room, turns: int) -> None:
    task = asyncio.create_task(room.records.change("s1", to(Phase.STOPPED)))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert (await room.store.held(), room.phase()) == ({"s1": Phase.STOPPED}, Phase.STOPPED)


async def test_commit_is_seen_only_when_it_is_durable(room: Room) -> None:
    seen: list[tuple[Phase, dict[str, Phase]]] = []

    async def look() -> None:
        for _ in range(20):
            seen.append((room.phase(), await room.store.held()))
            await asyncio.sleep(0)

    await asyncio.gather(room.records.commit("s1", to(Phase.READY)), look())
    assert {phase for phase, held in seen if held == {"s1": Phase.CREATING}} == {Phase.CREATING}
    assert seen[-1] == (Phase.READY, {"s1": Phase.READY})


async def test_a_failed_commit_changes_nothing_and_the_store_is_put_right(room: Room) -> None:
    room.store.fails = 1
    with pytest.raises(CheckpointFailed):
        await room.records.commit("s1", to(Phase.READY))
    assert room.phase() is Phase.CREATING
    await MemoryStore.put(room.store, replace(room.index.need_sandbox("s1").record, phase=Phase.READY))  # it did write
    await room.records.flush()
    assert await room.store.held() == {"s1": Phase.CREATING}


async def test_a_change_during_a_commit_is_kept(room: Room) -> None:
    commit = asyncio.create_task(room.records.commit("s1", to(Phase.READY)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await room.records.change("s1", lambda record: replace(record, started_at=9))
    await commit
    record = room.index.need_sandbox("s1").record
    assert (record.phase, record.started_at) == (Phase.READY, 9)
    assert (await room.store.load()).records == (record,)


async def test_delete_forgets_both(room: Room) -> None:
    await room.records.delete("s1")
    assert (room.index.sandbox("s1"), await room.store.held()) == (None, {})
    await room.records.flush()
    assert await room.store.held() == {}


async def test_a_change_during_a_delete_brings_nothing_back(room: Room) -> None:
    delete = asyncio.create_task(room.records.delete("s1"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    change = asyncio.create_task(room.records.change("s1", to(Phase.STOPPED)))
    await asyncio.gather(delete, change)
    assert (room.index.sandbox("s1"), await room.store.held()) == (None, {})
    assert room.records.unsaved == ()


async def test_a_failed_delete_leaves_it_listed_and_written(room: Room) -> None:
    room.store.fails = 1
    with pytest.raises(CheckpointFailed):
        await room.records.delete("s1")
    await MemoryStore.delete(room.store, "s1")  # it did delete
    assert room.phase() is Phase.CREATING
    await room.records.flush()
    assert await room.store.held() == {"s1": Phase.CREATING}


async def test_a_store_that_hangs_is_a_failure(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crishim.runtime.records._WRITE_LIMIT", 0.01)
    room.store.hangs = True
    with pytest.raises(CheckpointFailed, match="no answer"):
        await room.records.change("s1", to(Phase.STOPPED))
    with pytest.raises(CheckpointFailed, match="no answer"):
        await room.records.delete("s1")
    room.store.hangs = False
    await room.records.flush()
    assert await room.store.held() == {"s1": Phase.STOPPED}
