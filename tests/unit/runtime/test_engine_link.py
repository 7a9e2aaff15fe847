"""The link: away and why, there and since when, and back by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from crishim.engine.simulated import Fail, SimulatedEngine, settle
from crishim.engine.values import ContainerSpec, EngineEvent, EngineFacts
from crishim.errors import EngineError, EngineTimeout, EngineUnavailable, EngineUnsuitable
from crishim.runtime.engine_link import EngineLink


class Room:
    """A link to a simulated engine, and what it was told to do."""

    def __init__(self) -> None:
        self.engine = SimulatedEngine()
        self.told: list[str] = []
        self.fails: list[Exception] = []
        self.link = EngineLink(
            self.engine,
            on_connect=self._connect,
            on_event=self._event,
            on_compare=self._compare,
            compare_every=0.01,
        )

    async def _connect(self, facts: EngineFacts) -> None:
        self.told.append("connect")
        if self.fails:
            raise self.fails.pop(0)

    def _event(self, event: EngineEvent) -> None:
        self.told.append(event.action)

    async def _compare(self) -> None:
        self.told.append("compare")
        if self.fails:
            raise self.fails.pop(0)

    async def told_of(self, what: str, times: int = 1) -> None:
        end = asyncio.get_running_loop().time() + 5
        while self.told.count(what) < times:
            assert asyncio.get_running_loop().time() < end, f"{what} was not told of"
            await asyncio.sleep(0.001)


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    room = Room()
    yield room
    await room.link.close()
    assert room.engine.listening == 0


async def test_before_it_was_started(room: Room) -> None:
    assert not room.link.loaded
    assert room.link.last_facts is None
    for get in (lambda: room.link.engine, lambda: room.link.facts, room.link.need_loaded):
        with pytest.raises(EngineUnavailable, match="not been reached yet"):
            get()
    assert "away" in repr(room.link)


async def test_there(room: Room) -> None:
    await room.link.start()
    assert await room.link.wait_connected(5)
    assert room.link.engine is room.engine
    assert room.link.facts is room.engine.facts
    assert room.link.error is None
    room.link.need_loaded()
    assert repr(room.link) == "<EngineLink connected>"
    await room.told_of("compare")
    assert room.told[0] == "connect"


async def test_events_that_come_while_everything_is_read_are_taken(room: Room) -> None:
    async def connect(facts: EngineFacts) -> None:
        await room.engine.create("some", ContainerSpec(image="busybox", labels={}))
        await settle()
        room.told.append("read")

    room.link._on_connect = connect
    await room.link.start()
    assert await room.link.wait_connected(5)
    assert room.told[:2] == ["create", "read"]


async def test_away_and_back(room: Room) -> None:
    await room.link.start()
    assert await room.link.wait_connected(5)
    room.engine.go_down("stopped")
    await settle()
    assert isinstance(room.link.error, EngineUnavailable)
    with pytest.raises(EngineUnavailable, match="stopped"):
        _ = room.link.engine
    room.link.need_loaded()  # what was read stays known
    assert room.link.last_facts is room.engine.facts
    assert not await room.link.wait_connected(0.05)
    room.engine.come_back()
    assert await room.link.wait_connected(5)
    assert room.told.count("connect") == 2


async def test_settings_that_the_engine_has_read_anew_are_known(room: Room) -> None:
    changes: list[EngineFacts] = []
    room.link.subscribe(lambda: changes.append(room.link.facts))
    await room.link.start()
    assert await room.link.wait_connected(5)
    room.engine.facts = replace(room.engine.facts, twins={"runc": "/front/crishim-runc"})
    room.engine.reload()
    await room.told_of("connect", 2)
    await room.told_of("compare", room.told.count("compare") + 1)
    assert room.link.facts.twins == {"runc": "/front/crishim-runc"}
    assert [facts.twins for facts in changes] == [{}, {"runc": "/front/crishim-runc"}]
    assert (room.link.connections, room.link.losses) == (1, 0), "the engine was never away"
    assert "reload" not in room.told


@pytest.mark.parametrize("error", [EngineTimeout("late"), EngineError("?"), KeyError("a bug of ours")])
async def test_a_reading_that_fails_is_tried_again(room: Room, error: Exception) -> None:
    room.fails = [error, error]
    await room.link.start()
    assert await room.link.wait_connected(5)
    assert room.told[:3] == ["connect"] * 3
    assert room.engine.listening == 1


async def test_a_comparison_that_fails_connects_anew(room: Room) -> None:
    await room.link.start()
    assert await room.link.wait_connected(5)
    room.fails = [EngineTimeout("late")]
    await room.told_of("connect", 2)
    assert await room.link.wait_connected(5)


async def test_the_reason_keeps_its_kind(room: Room) -> None:
    room.engine.script("connect", Fail(EngineUnsuitable("rootless")), times=None)
    await room.link.start()
    await settle()
    with pytest.raises(EngineUnsuitable, match="rootless"):
        _ = room.link.engine


async def test_closed(room: Room) -> None:
    await room.link.start()
    assert await room.link.wait_connected(5)
    await room.link.close()
    await room.link.close()
    with pytest.raises(EngineUnavailable, match="closed"):
        _ = room.link.engine


async def test_connections_and_losses_are_counted_and_told(room: Room) -> None:
    told: list[bool] = []
    unsubscribe = room.link.subscribe(lambda: told.append(room.link.error is None))
    assert (room.link.connections, room.link.losses) == (0, 0)
    await room.link.start()
    assert await room.link.wait_connected(5)
    for times in (1, 2):
        room.engine.go_down()
        async with asyncio.timeout(5):
            while room.link.error is None:  # noqa: ASYNC110 - what is waited for is the link's own doing
                await asyncio.sleep(0.001)
        room.engine.come_back()
        assert await room.link.wait_connected(5)
        assert (room.link.connections, room.link.losses) == (times + 1, times)
    assert told == [True, False, True, False, True], "each change once, tries that fail are none"
    unsubscribe()
    unsubscribe()
    await room.link.close()
    assert len(told) == 5
