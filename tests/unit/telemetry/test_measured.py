"""The engine and the network with a clock at each call behave as they do without one."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from crishim.engine.api import Engine
from crishim.engine.simulated import Fail, SimulatedEngine, settle
from crishim.engine.values import ContainerSpec
from crishim.errors import EngineError, EngineNotFound
from crishim.network.api import PodNetwork
from crishim.network.none import NoNetwork
from crishim.telemetry.durations import Operations
from crishim.telemetry.measured import measured


def counts(operations: Operations) -> dict[str, int]:
    return {name: sum(durations.counts) for name, durations in operations.durations.items()}


async def test_calls_of_the_engine() -> None:
    target, operations = SimulatedEngine(), Operations()
    engine = measured(Engine, target, operations)
    assert isinstance(engine, Engine)
    assert repr(engine) == repr(target)
    await engine.connect()
    async with engine.events() as events:
        made = await engine.create("one", ContainerSpec(image="busybox:latest", labels={"a": "b"}))
        assert (await anext(events)).id == made
    assert target.listening == 0
    assert list(await engine.list_containers({"a": "b"}, image="")) == [made]
    target.script("inspect", Fail(EngineError("by the test")))
    with pytest.raises(EngineError, match="by the test"):
        await engine.inspect(made)
    with pytest.raises(EngineNotFound):
        await engine.remove("f" * 64)
    await engine.close()
    assert counts(operations) == {
        "connect": 1, "events": 1, "create": 1, "list_containers": 1, "inspect": 1, "remove": 1, "close": 1
    }  # fmt: skip
    assert operations.failures == {("inspect", "UNKNOWN"): 1, ("remove", "NOT_FOUND"): 1}


async def test_a_stream_ends_with_whatever_happens_inside() -> None:
    target, operations = SimulatedEngine(), Operations()
    engine = measured(Engine, target, operations)
    await engine.connect()

    async def listen() -> None:
        async with engine.events() as events:
            await anext(events)

    for _ in range(2):
        listening = asyncio.create_task(listen())
        await settle()
        assert target.listening == 1
        listening.cancel()
        await asyncio.wait((listening,))
        assert listening.cancelled()
        assert target.listening == 0
    assert operations.failures == {}, "the stream was open"
    assert counts(operations)["events"] == 2


async def test_operations_of_the_network() -> None:
    operations = Operations()
    network = measured(PodNetwork, NoNetwork(), operations)
    assert network.name == "none"
    assert network.status().ready
    await network.gc({})
    assert counts(operations) == {"gc": 1}, "what only looks is not an operation"


@pytest.mark.parametrize("interface", [Engine, PodNetwork])
def test_nothing_of_an_interface_is_left_out(interface: type) -> None:
    names = {name for name, _ in inspect.getmembers(interface, inspect.isfunction) if not name.startswith("_")}
    assert set(getattr(interface, "__abstractmethods__", ())) <= names, "a property would have to be handed on, too"
