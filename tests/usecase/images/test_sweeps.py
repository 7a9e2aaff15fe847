"""Every verb: each await is cancelled once, each engine call fails once in every way; then the truth is known again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from crishim.engine.simulated.images import made_up
from crishim.model import ImageSpec
from crishim.testing.faults import Case, Faults, Outcome, sweep_cancellations, sweep_failures

APP = made_up("host.example/app:1")
HERE = made_up("here:1")


async def refresh(node) -> None:
    await node.images.refresh()


async def find_unseen(node) -> None:
    assert await node.images.status(ImageSpec(image=APP.id[7:19])) is None
    assert await node.images.resolve_for_container("unseen:1") == made_up("unseen:1")


async def pull(node) -> None:
    assert await node.images.pull(ImageSpec(image="host.example/app:1")) == APP.id


async def sandbox(node) -> None:
    assert node.engine.images.find(await node.images.ensure_sandbox_image())


async def remove(node) -> None:
    await node.images.remove(ImageSpec(image="here:1"))
    assert node.images.index.get(HERE.id) is None


VERBS = [refresh, find_unseen, pull, sandbox, remove]


def scenario(
    new_node, verb: Callable[..., Coroutine[Any, Any, None]]
) -> Callable[..., AbstractAsyncContextManager[Case]]:
    @asynccontextmanager
    async def case(faults: Faults | None = None) -> AsyncIterator[Case]:
        node = new_node()
        node.engine.images.add(HERE)
        await node.images.refresh()
        node.engine.images.add(made_up("unseen:1"))
        if faults is not None:
            node.reach = faults.engine(node.engine)

        async def check(outcome: Outcome) -> None:
            await node.background.drain(5)
            assert node.engine.pulls_under_way == 0
            there = HERE.id in {image.id for image in node.engine.images.all()}
            assert there or verb is remove
            if there:
                assert node.engine.images.find(HERE.id) == HERE, "no name is lost"
            if not isinstance(outcome.error, Exception):
                # While calls fail the index may be behind; where none did, it is not.
                assert (node.images.index.get(HERE.id) is not None) is there
            await verb(node)  # the caller's next try
            await node.images.refresh()
            await node.background.drain(5)
            node.check_contents()

        yield Case(run=lambda: verb(node), check=check)

    return case


@pytest.mark.parametrize("verb", VERBS)
async def test_cancelled_anywhere(new_node, verb):
    assert await sweep_cancellations(scenario(new_node, verb)) >= 1


@pytest.mark.parametrize("verb", VERBS)
async def test_any_engine_call_fails(new_node, verb):
    assert await sweep_failures(scenario(new_node, verb)) >= 1
