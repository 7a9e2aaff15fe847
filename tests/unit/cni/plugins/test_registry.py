"""Threads of embedded plugins: what the caller is told, and that nothing runs on unseen."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable

import pytest

from cni import results
from cni.errors import InvocationFailed, PluginCrashed, PluginError, PluginNotFound, PluginTimeout
from cni.plugins import registry
from cni.plugins.api import Call, CallFailed, Plugin
from cni.plugins.registry import EmbeddedInvoker
from cni.results import Result

ENVIRONMENT = {"CNI_CONTAINERID": "c1", "CNI_IFNAME": "eth0", "CNI_NETNS": "/n"}
STDIN = json.dumps({"cniVersion": "1.0.0", "name": "net", "type": "bridge"}).encode()


class Scripted(Plugin):
    """Does in ADD and DEL what the test says."""

    type = "bridge"

    def __init__(self, **does: Callable[[Call], None]) -> None:
        self._does = does

    def add(self, call: Call) -> Result:
        self._do(call)
        return results.make(call.version)

    def _do(self, call: Call) -> None:
        self._does.get(call.verb, lambda _: None)(call)

    check = delete = gc = status = _do


def make(monkeypatch: pytest.MonkeyPatch, **does: Callable[[Call], None]) -> EmbeddedInvoker:
    monkeypatch.setattr(registry, "load", lambda _: Scripted(**does))
    return EmbeddedInvoker()


async def run(invoker: EmbeddedInvoker, verb: str, timeout: float = 10) -> bytes:
    return await invoker.invoke("bridge", ENVIRONMENT | {"CNI_COMMAND": verb}, STDIN, timeout)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("cni-")]


def waits_until_stopped(call: Call) -> None:
    call.stopping.wait()
    call.goes_on()


async def test_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(await run(make(monkeypatch), "ADD")) == {"cniVersion": "1.0.0"}


async def test_refusals_and_faults_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Call) -> None:
        raise CallFailed(11, "later", "soon")

    def fault(_: Call) -> None:
        raise KeyError("x")

    def leave(_: Call) -> None:
        raise SystemExit("the thread cannot go on")

    with pytest.raises(PluginError, match="plugin bridge failed ADD: later"):
        await run(make(monkeypatch, ADD=refuse), "ADD")
    with pytest.raises(PluginCrashed, match="plugin bridge failed DEL: KeyError: 'x'"):
        await run(make(monkeypatch, DEL=fault), "DEL")
    with pytest.raises(PluginCrashed, match="the thread cannot go on"):
        await run(make(monkeypatch, ADD=leave), "ADD")


async def test_cancelled_it_is_stopped_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    invoker = make(monkeypatch, ADD=waits_until_stopped)
    task = asyncio.create_task(run(invoker, "ADD"))
    await asyncio.sleep(0)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    await invoker.settle("c1")
    assert threads() == []


async def test_out_of_time_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PluginTimeout, match=r"no answer within 0\.01 s"):
        await run(make(monkeypatch, ADD=waits_until_stopped), "ADD", 0.01)


async def test_deferred_work_comes_after_the_answer_and_before_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    go, done = threading.Event(), []

    def delete(call: Call) -> None:
        call.later(lambda: done.append(go.wait()))

    invoker = make(monkeypatch, DEL=delete)
    await run(invoker, "DEL")
    assert done == []
    add = asyncio.create_task(run(invoker, "ADD"))
    await asyncio.sleep(0)
    assert not add.done()
    go.set()
    await invoker.settle("c1")
    assert done == [True]
    await add


async def test_deferred_work_that_fails_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError(5, "made to fail")

    invoker = make(monkeypatch, DEL=lambda call: call.later(fail))
    await run(invoker, "DEL")
    with pytest.raises(InvocationFailed, match="made to fail"):
        await invoker.settle("c1")
    await invoker.settle("c1")


async def test_types_that_are_not_embedded() -> None:
    with pytest.raises(PluginNotFound, match="not one of the embedded plugins: bridge"):
        EmbeddedInvoker().find("macvlan")
    with pytest.raises(PluginNotFound):
        await EmbeddedInvoker().invoke("macvlan", {"CNI_COMMAND": "VERSION"}, b"", 1)
