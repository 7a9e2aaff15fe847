"""The watch: events mark, one inspect at a time tells, and nothing older replaces what is newer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from crishim.aiokit.background import Background
from crishim.checkpoint.memory import MemoryStore
from crishim.engine.simulated import Fail, Hang, SimulatedEngine, settle
from crishim.engine.values import ContainerPhase, ContainerSpec, EngineContainer, EngineResources, LogSpool
from crishim.errors import EngineError, EngineUnavailable
from crishim.logs.inline import InlineLogWriter
from crishim.runtime.index import Index
from crishim.runtime.log_relay import LogRelay
from crishim.runtime.logs import Logs
from crishim.runtime.objects import Container, Sandbox
from crishim.runtime.records import Records
from crishim.runtime.watch import Watch

CREATED, RUNNING, EXITED, REMOVING = (
    ContainerPhase.CREATED,
    ContainerPhase.RUNNING,
    ContainerPhase.EXITED,
    ContainerPhase.REMOVING,
)


class Room:
    """A watch over a simulated engine, with a sandbox `s1` that the engine does not have, and a container in it."""

    def __init__(self, make_sandbox: Callable[..., Sandbox], make_container: Callable[..., Container]) -> None:
        self.engine = SimulatedEngine()
        self.index = Index()
        self.store = MemoryStore()
        records = Records(self.index, self.store, Background())
        logs = Logs(InlineLogWriter(), LogRelay(self.engine, None, LogSpool()), self.index, records, Background())
        self.watch = Watch(self.engine, self.index, records, logs, retry=0.001)
        self._make_container = make_container
        self.index.put_sandbox(make_sandbox())

    async def add(self, memory: int = 0) -> str:
        """A container that runs; `memory`: its limit."""
        number = len(self.engine.containers)
        spec = ContainerSpec(image="busybox", labels={}, resources=EngineResources(memory=memory))
        container_id = await self.engine.create(f"c-{number}", spec)
        await self.engine.start(container_id)
        live = await self.engine.inspect(container_id)
        self.index.put_container(replace(self._make_container(container_id), live=live))
        self.engine.calls.clear()
        return container_id

    async def ended(self, container_id: str) -> None:
        """Return once the container is known to have ended."""
        end = asyncio.get_running_loop().time() + 5
        while self.phase(container_id) is not EXITED:
            assert asyncio.get_running_loop().time() < end, "its end was not seen"
            await asyncio.sleep(0.001)

    def reasons(self) -> dict[str, str]:
        """Why each container has ended."""
        return {container.id: container.reason for container in self.index.containers()}

    def phase(self, container_id: str) -> ContainerPhase:
        return self.index.need_container(container_id).live.phase


@pytest.fixture
async def room(make_sandbox: Callable[..., Sandbox], make_container: Callable[..., Container]) -> AsyncIterator[Room]:
    room = Room(make_sandbox, make_container)
    await room.store.open()
    task = asyncio.create_task(room.watch.run())
    yield room
    assert not task.done()
    task.cancel()
    await asyncio.wait((task,))


async def test_many_marks_are_one_question(room: Room) -> None:
    container = await room.add()
    for _ in range(100):
        room.watch.mark(container)
    room.engine.finish(container)
    await settle()
    assert room.phase(container) is EXITED
    assert room.engine.calls["inspect"] == 1
    assert repr(room.watch) == "<Watch 0 dirty, 0 being asked>"


async def test_a_mark_during_the_question_is_another_question(room: Room) -> None:
    container = await room.add()
    line = room.engine.script("inspect", Hang(after_effect=True))
    room.watch.mark(container)
    await settle()
    room.engine.finish(container)
    room.watch.mark(container)
    await settle()
    assert (line.hits, room.engine.calls["inspect"]) == (1, 1)  # one at a time for one object
    room.engine.go_down()
    room.engine.come_back()
    await room.ended(container)


async def test_strangers_are_not_asked_for(room: Room) -> None:
    room.watch.mark("stranger")
    await settle()
    assert room.engine.calls == {}


async def test_strangers_that_become_known_while_everything_is_read_are(room: Room) -> None:
    container = await room.add()
    known = room.index.need_container(container)
    room.index.drop_container(container)
    with room.watch.reading():
        room.watch.mark(container)
        room.watch.mark("stranger")
        room.engine.finish(container)
        room.index.put_container(known)
    await settle()
    assert room.phase(container) is EXITED
    assert room.engine.calls["inspect"] == 1


async def test_ours_comes_first(room: Room) -> None:
    """While we write nobody asks, and what was asked before does not count."""
    container = await room.add()
    before = room.watch.stamp()
    with room.watch.writing(container):
        assert not room.watch.counts(container, room.watch.stamp())
        with room.watch.writing(container):
            room.watch.mark(container)
            await settle()
        assert room.engine.calls == {}
    assert not room.watch.counts(container, before)
    assert room.watch.counts(container, room.watch.stamp())
    await settle()
    assert room.engine.calls["inspect"] == 1


async def test_what_was_dropped_is_forgotten(room: Room) -> None:
    container = await room.add()
    with room.watch.writing(container):
        pass
    room.index.drop_container(container)
    assert container not in room.watch._last_write


@pytest.mark.parametrize("error", [EngineError("broken"), EngineUnavailable("lost"), KeyError("a bug of ours")])
async def test_what_was_not_answered_is_asked_again(room: Room, error: Exception) -> None:
    container = await room.add()
    room.engine.script("inspect", Fail(error), times=3)
    room.engine.finish(container)
    room.watch.mark(container)
    await room.ended(container)


async def test_the_kernels_word_for_want_of_memory_lasts(room: Room) -> None:
    """The engine has missed it, and goes on to say so each time that it is asked."""
    starved, killed = await room.add(memory=1 << 20), await room.add(memory=1 << 20)
    room.watch.out_of_memory = lambda container_id: container_id == starved
    for container in (starved, killed):
        room.engine.finish(container, 137)
        room.watch.mark(container)
        await room.ended(container)
    assert room.reasons() == {starved: "OOMKilled", killed: "Error"}
    for container in (starved, killed):
        await room.watch.refresh(container)
    assert room.reasons() == {starved: "OOMKilled", killed: "Error"}
    await room.engine.start(starved)
    await room.watch.refresh(starved)
    room.watch.out_of_memory = lambda _: False
    room.engine.finish(starved, 137)
    await room.watch.refresh(starved, killed=True)
    assert room.reasons() == {starved: "Error", killed: "Error"}, "that was another life of it"
    room.index.drop_container(starved)
    assert room.watch._starved == {}


@pytest.mark.parametrize(("code", "limit"), [(137, 0), (0, 1 << 20), (1, 1 << 20)])
async def test_the_kernel_is_asked_only_of_what_may_have_wanted_memory(room: Room, code: int, limit: int) -> None:
    container = await room.add(memory=limit)
    room.watch.out_of_memory = lambda _: True
    room.engine.finish(container, code)
    room.watch.mark(container)
    await room.ended(container)
    assert "OOMKilled" not in room.reasons().values()


async def test_one_that_hangs_holds_no_other(room: Room) -> None:
    stuck, other = await room.add(), await room.add()
    room.engine.script("inspect", Hang(), match=lambda i: i == stuck)
    room.watch.mark(stuck)
    await settle()
    room.engine.finish(other)
    room.watch.mark(other)
    await settle()
    assert room.phase(other) is EXITED


async def test_what_is_gone(room: Room) -> None:
    container = await room.add()
    room.engine.vanish(container)
    room.watch.mark(container)
    room.watch.mark("s1")
    await settle(50)
    assert room.index.container(container) is None
    assert room.index.need_sandbox("s1").live is None
    assert await room.watch.refresh("s1") is None


Changes = dict[str, Any]


@pytest.mark.parametrize(
    ("known", "answer", "taken"),
    [
        ({"phase": CREATED, "started_at": 0}, {}, True),
        ({}, {"phase": EXITED}, True),
        ({}, {"phase": CREATED, "started_at": 0}, False),
        ({"phase": EXITED}, {}, False),
        ({"phase": EXITED}, {"started_at": 3_000}, True),  # started again
        ({"started_at": 3_000}, {"phase": EXITED}, False),  # of the time before
        ({"phase": EXITED}, {"phase": REMOVING}, True),
        ({"phase": CREATED, "started_at": 0, "exit_code": 127}, {"phase": CREATED, "started_at": 0}, False),
        ({"phase": CREATED, "started_at": 0}, {"phase": CREATED, "started_at": 0, "error": "no"}, True),
        ({"phase": EXITED}, {"phase": EXITED, "oom_killed": True}, True),
    ],
    ids=str,
)
async def test_states_move_forward(
    room: Room, make_live: Callable[..., EngineContainer], known: Changes, answer: Changes, taken: bool
) -> None:
    await room.add()
    container = next(iter(room.index.containers()))
    before, after = make_live(container.id, **known), make_live(container.id, **answer)
    room.index.put_container(replace(container, live=before))
    await room.watch.apply(after)
    assert room.index.need_container(container.id).live is (after if taken else before)
    sandbox = room.index.need_sandbox("s1")
    room.index.put_sandbox(replace(sandbox, live=replace(before, id="s1")))
    await room.watch.apply(replace(after, id="s1"))
    assert room.index.need_sandbox("s1").live == replace(after if taken else before, id="s1")


async def test_an_answer_makes_the_unseen_seen(
    room: Room, make_live: Callable[..., EngineContainer], make_sandbox: Callable[..., Sandbox]
) -> None:
    container = room.index.need_container(await room.add())
    room.index.put_container(replace(container, seen=False))
    room.index.put_sandbox(replace(make_sandbox(), live=None, seen=False))
    await room.watch.apply(make_live(container.id))
    await room.watch.apply(make_live("s1"))
    assert room.index.need_container(container.id).seen
    assert room.index.need_sandbox("s1").seen
    room.index.put_sandbox(replace(make_sandbox(), live=None, seen=False))
    await room.watch.vanished("s1")
    assert room.index.need_sandbox("s1").state.name == "SANDBOX_NOTREADY"
