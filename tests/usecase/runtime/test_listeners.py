"""GetContainerEvents on fakes: each event once, in order, to all who listen, whatever the engine does."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.engine.simulated import Fail
from crishim.errors import NetworkFailed
from crishim.events.listener import Listener
from crishim.rpc import events as rpc
from crishim.rpc.served import Served, serve_from
from tests.usecase.runtime.world import World

LIFE = ["CREATED", "STARTED", "STOPPED", "DELETED"]


@pytest.fixture
async def served(world: World) -> AsyncIterator[Served]:
    served = serve_from(world.rt)
    yield served
    await served.close()


async def read(listener: Listener) -> list[pb.ContainerEventResponse]:
    """All that was told so far."""
    found = []
    while True:
        try:
            found.append(pb.ContainerEventResponse.FromString(await asyncio.wait_for(anext(listener), 0.01)))
        except TimeoutError:
            return found


def kind(event: pb.ContainerEventResponse) -> str:
    return pb.ContainerEventType.Name(event.container_event_type).split("_")[1]


def lives(events: list[pb.ContainerEventResponse]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for event in events:
        found[event.container_id].append(kind(event))
    return dict(found)


async def churn(world: World, name: str = "web") -> tuple[str, str]:
    sandbox = await world.run(name=name)
    container = await world.run_container(sandbox)
    await world.stop(sandbox)
    await world.remove(sandbox)
    return sandbox, container


async def test_a_pods_life(world: World, served: Served) -> None:
    listener = served.events.listen()
    sandbox, container = await churn(world)
    events = await read(listener)
    assert lives(events) == {sandbox: LIFE, container: LIFE}
    assert [(kind(e), "sandbox" if e.container_id == sandbox else "container") for e in events] == [
        ("CREATED", "sandbox"),
        ("STARTED", "sandbox"),
        ("CREATED", "container"),
        ("STARTED", "container"),
        ("STOPPED", "sandbox"),  # it is not READY from the moment on that it is asked to stop
        ("STOPPED", "container"),
        ("DELETED", "container"),
        ("DELETED", "sandbox"),
    ]
    assert all(event.pod_sandbox_status.metadata.uid == "uid-web" for event in events)
    times = [event.created_at for event in events]
    assert times == sorted(set(times))
    assert times[0] > 0


async def test_statuses_are_those_of_then(world: World, served: Served) -> None:
    listener = served.events.listen()
    sandbox, container = await churn(world)
    told = {(kind(event), event.container_id): event for event in await read(listener)}
    assert told["CREATED", sandbox].pod_sandbox_status.state == pb.SANDBOX_NOTREADY
    assert told["STARTED", sandbox].pod_sandbox_status.state == pb.SANDBOX_READY
    states = {
        when: [status.state for status in told[when, container].containers_statuses]
        for when in ("CREATED", "STARTED", "STOPPED", "DELETED")
    }
    assert states == {
        "CREATED": [pb.CONTAINER_CREATED],
        "STARTED": [pb.CONTAINER_RUNNING],
        "STOPPED": [pb.CONTAINER_EXITED],
        "DELETED": [],
    }
    assert told["DELETED", sandbox].pod_sandbox_status.id == sandbox


async def test_nothing_is_kept_of_what_was_deleted(world: World, served: Served) -> None:
    listener = served.events.listen()
    for number in range(5):
        await churn(world, f"pod-{number}")
    assert len(await read(listener)) == 40
    assert (len(served.sandboxes), len(served.containers)) == (0, 0)


async def test_all_listeners_are_told_the_same(world: World, served: Served) -> None:
    listeners = [served.events.listen() for _ in range(10)]
    await churn(world)
    first = [await anext(listener) for listener in listeners]
    assert all(event is first[0] for event in first), "made once, however many are told of it"
    told = [await read(listener) for listener in listeners]
    assert len(told[0]) == 7
    assert all(events == told[0] for events in told)
    late = served.events.listen()
    assert await read(late) == []


async def test_who_leaves_is_told_nothing_more(world: World, served: Served) -> None:
    first, second = served.events.listen(), served.events.listen()
    await first.aclose()
    await first.aclose()
    await churn(world)
    assert repr(first) == "<Listener 0 events, 0 bytes>"
    assert len(await read(second)) == 8
    await second.aclose()
    assert repr(served.events) == "<Events 0 listeners, 0 dropped>"


async def test_an_outage_ends_no_stream_and_the_difference_is_told(world: World, served: Served) -> None:
    """Trap 33: events lost at a reconnect, or doubled."""
    sandbox = await world.run()
    stays, ends, goes = [await world.run_container(sandbox, name=name) for name in ("stays", "ends", "goes")]
    listener = served.events.listen()
    world.engine.go_down()
    await world.until(lambda: world.rt.link.error is not None, 1)
    world.engine.finish(ends, 3)
    world.engine.vanish(goes)
    assert await read(listener) == []
    world.engine.come_back()
    assert await world.rt.link.wait_connected(60)
    await world.quiet()
    events = await read(listener)
    assert lives(events) == {ends: ["STOPPED"], goes: ["STOPPED", "DELETED"]}
    ended = next(event for event in events if event.container_id == ends)
    status = {status.id: status for status in ended.containers_statuses}
    assert status[ends].exit_code == 3
    assert status[stays].state == pb.CONTAINER_RUNNING
    await world.node.compare()
    assert await read(listener) == []


async def test_what_is_found_at_the_start_has_not_just_happened(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.start()
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    await world.node.close()
    world.engine.go_down()
    await world.start(connected=False)
    served = serve_from(world.rt)
    listener = await rpc.listen(served, pb.GetEventsRequest())
    assert isinstance(listener, Listener)
    world.engine.come_back()
    assert await world.rt.link.wait_connected(60)
    assert await read(listener) == []
    await world.stop_container(container)
    assert lives(await read(listener)) == {container: ["STOPPED"]}
    await served.close()
    await world.check_removable()
    await world.close()


async def test_a_failed_run_is_created_and_deleted(world: World, served: Served) -> None:
    listener = served.events.listen()
    world.network.script("attach", Fail(NetworkFailed("no address")))
    with pytest.raises(NetworkFailed):
        await world.run(name="unlucky")
    await world.quiet()
    assert list(lives(await read(listener)).values()) == [["CREATED", "DELETED"]]


async def test_the_server_stops(world: World, served: Served) -> None:
    listener = served.events.listen()
    waiting = asyncio.ensure_future(read_all(listener))
    await churn(world)
    served.end_streams()
    assert len(await waiting) == 8
    assert await read_all(served.events.listen()) == []


async def read_all(listener: Listener) -> list[bytes]:
    return [event async for event in listener]


async def test_an_event_that_cannot_be_told_harms_nobody(
    world: World, served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    listener = served.events.listen()

    def fail(thing: object) -> bytes:
        raise ValueError("unlucky")

    monkeypatch.setattr(served.sandboxes, "status", fail)
    await churn(world)
    assert "an event is not told" in caplog.text
    monkeypatch.undo()
    await read(listener)
    assert len((await churn(world, "next"), await read(listener))[1]) == 8
