"""The image room on the simulated engine, and ways to break into the middle of a call."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from crishim.aiokit.background import Background
from crishim.engine.api import Engine
from crishim.engine.simulated import SimulatedEngine, settle
from crishim.engine.values import EngineEvent, EngineImage
from crishim.images.service import Images, ImageSettings


class Node:
    """An engine, the images on it, and what they are told of it."""

    def __init__(self, **settings: Any) -> None:
        self.engine = SimulatedEngine()
        self.reach: Engine | None = None
        """What the images reach the engine through, if something lies between."""
        self.background = Background()
        self.users: dict[str, list[str]] = {}
        self.handlers = ["runc"]
        self.images = Images(
            lambda: self.reach or self.engine,
            self.background,
            settings=ImageSettings(**settings),
            used_by=lambda image_id: self.users.get(image_id, []),
            handlers=lambda: self.handlers,
            facts=lambda: self.engine.facts,
        )

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Events reach the images inside the block."""
        async with self.engine.events() as stream:
            task = asyncio.create_task(self._listen(stream))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _listen(self, stream: AsyncIterator[EngineEvent]) -> None:
        async for event in stream:
            self.images.on_event(event)

    async def quiet(self) -> None:
        """Return when nothing is going on any more."""
        await settle()
        assert await self.background.drain(5) == []
        await settle()

    async def quiet_events(self) -> None:
        """Return when the events told so far are digested; for use inside `listening`."""
        for _ in range(5):
            await settle()
            await self.background.drain(5)

    def check_contents(self) -> None:
        """The index is what the engine has."""
        assert _by_id(self.images.index.images()) == _by_id(self.engine.images.all())

    def check_truth(self) -> None:
        """The index is what the engine has, and nothing runs or is held."""
        self.check_contents()
        assert self.engine.pulls_under_way == 0
        assert len(self.background) == 0
        assert len(asyncio.all_tasks()) == 1


def _by_id(images: Iterable[EngineImage]) -> dict[str, EngineImage]:
    return {image.id: image for image in images}


@pytest.fixture
def new_node() -> Callable[..., Node]:
    """`new_node(**settings)`: a node whose images were listed by nobody yet."""
    return Node


@pytest.fixture
async def node() -> Node:
    """A node whose images are known; nothing is counted yet."""
    node = Node()
    await node.images.refresh()
    node.engine.calls.clear()
    return node


class _Selector(selectors.DefaultSelector):
    """Instead of waiting for a timer, moves the time on to it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "the test waits for something that nobody will do"
        self.now += max(timeout, 0)
        return super().select(0)


class _VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


@pytest.fixture
def in_virtual_time() -> Callable[[Callable[[], Coroutine[Any, Any, None]]], None]:
    """Run a test whose loop's time jumps from timer to timer, so that limits of minutes are over at once."""

    def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with asyncio.Runner(loop_factory=_VirtualTimeLoop) as runner:
            runner.run(work())

    return run


async def cancel_after(work: Coroutine[Any, Any, object], turns: int) -> bool:
    """Run `work` and cancel it after so many turns of the loop; whether it ended before that."""
    task = asyncio.create_task(work)
    for _ in range(turns):
        await asyncio.sleep(0)
        if task.done():
            task.result()
            return True
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled() or task.exception() is None
    return False


@pytest.fixture
def every_await() -> Callable[..., Any]:
    """`async for node in every_await(make, work)`: `work(node)` was cancelled at each await in turn, then quiet.

    Fails if the call never takes long enough to be cancelled, or never ends.
    """

    async def run(make: Callable[[], Any], work: Callable[[Any], Coroutine[Any, Any, object]]) -> AsyncIterator[Any]:
        for turns in range(200):
            node = await make()
            finished = await cancel_after(work(node), turns)
            await node.quiet()
            yield node
            if finished:
                assert turns > 2, "nothing was cancelled"
                return
        pytest.fail("the call never ended")

    return run
