"""Streamed lists are of one moment, however slowly they are read and whatever happens to the engine meanwhile."""

from __future__ import annotations

from crishim.cri.v1 import runtime_pb2 as pb
from crishim.rpc import streamed
from crishim.rpc.served import serve_from
from tests.usecase.runtime.world import World

MANY = 30
NOTE = {"note": "x" * 20_000}
"""So large that a message holds a part of the list only."""


async def test_a_slow_reader_is_told_what_there_was_and_holds_nobody_up(world: World) -> None:
    served = serve_from(world.rt)
    sandbox = await world.run()
    containers = [await world.run_container(sandbox, name=f"c{n}", annotations=NOTE) for n in range(MANY)]
    stream = await streamed.containers(served, pb.StreamContainersRequest())
    messages = [await anext(stream)]
    assert len(world.rt.locks) == 0, "a reader that pauses here for ever stops no verb"

    # Behind our back, by an outage in which containers end, and by verbs of ours.
    world.engine.vanish(containers[-1])
    world.engine.go_down()
    await world.until(lambda: world.rt.link.error is not None, 1)
    world.engine.finish(containers[-2], 3)
    world.engine.come_back()
    assert await world.rt.link.wait_connected(60)
    await world.stop(sandbox)
    await world.remove(sandbox)
    assert list(world.rt.index.containers()) == []

    messages += [message async for message in stream]
    items = [item for message in messages for item in pb.StreamContainersResponse.FromString(message).containers]
    assert [item.id for item in items] == containers
    assert {item.state for item in items} == {pb.CONTAINER_RUNNING}
    assert len(messages) > 1
    assert [chunk async for chunk in await streamed.containers(served, pb.StreamContainersRequest())] == []
    await served.close()


async def test_a_list_during_an_outage_is_the_last_known_one(world: World) -> None:
    served = serve_from(world.rt)
    sandbox = await world.run()
    container = await world.run_container(sandbox)
    world.engine.go_down()
    await world.until(lambda: world.rt.link.error is not None, 1)
    (message,) = [chunk async for chunk in await streamed.containers(served, pb.StreamContainersRequest())]
    (item,) = pb.StreamContainersResponse.FromString(message).containers
    assert (item.id, item.state) == (container, pb.CONTAINER_RUNNING)
    (message,) = [chunk async for chunk in await streamed.sandboxes(served, pb.StreamPodSandboxesRequest())]
    assert [item.id for item in pb.StreamPodSandboxesResponse.FromString(message).pod_sandboxes] == [sandbox]
    world.engine.come_back()
    assert await world.rt.link.wait_connected(60)
    await served.close()
