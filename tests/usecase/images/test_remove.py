"""RemoveImage: the whole image or nothing of it."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from crishim.engine.simulated import Drop, Fail, Hang, settle
from crishim.engine.simulated.images import made_up
from crishim.engine.values import ContainerSpec
from crishim.errors import EngineConflict, EngineError, EngineUnavailable, ImageInUse, InvalidArgument
from crishim.model import ImageSpec

DIGEST = made_up("app:1").digests[0]
APP = dataclasses.replace(made_up("app:1"), tags=("app:1", "app:2", "host.example/other:3"))
NAMES = ["app:1", "app:2", "host.example/other:3", DIGEST, f"app:9@{DIGEST.partition('@')[2]}"]
REFERENCES = [*NAMES, APP.id, APP.id[7:], APP.id[7:19]]


@pytest.fixture
async def node(new_node):
    """A node that has an image with three names."""
    node = new_node()
    node.engine.images.add(APP)
    await node.images.refresh()
    node.engine.calls.clear()
    return node


def gone(node) -> bool:
    return all(image.id != APP.id for image in node.engine.images.all()) and node.images.index.get(APP.id) is None


def whole(node) -> bool:
    return APP in node.engine.images.all() and node.images.index.get(APP.id) == APP


@pytest.mark.parametrize("text", REFERENCES)
async def test_any_reference_removes_the_whole_image(node, text):
    await node.images.remove(ImageSpec(image=text))
    assert gone(node)
    assert await node.images.status(ImageSpec(image="host.example/other:3")) is None
    node.check_truth()


@pytest.mark.parametrize(
    "text", ["absent", "absent:1", "sha256:" + "0" * 64, "0" * 64, f"absent@{DIGEST.partition('@')[2]}"]
)
async def test_a_missing_image_is_success(node, text):
    await node.images.remove(ImageSpec(image=text))
    assert whole(node)


@pytest.mark.parametrize("text", ["", "Bad", "a b"])
async def test_what_is_no_reference_is_refused(node, text):
    with pytest.raises(InvalidArgument):
        await node.images.remove(ImageSpec(image=text))
    assert not node.engine.calls


async def test_ten_at_once_all_succeed_and_one_removes(node):
    texts = (REFERENCES * 2)[:10]
    await asyncio.gather(*(node.images.remove(ImageSpec(image=text)) for text in texts))
    assert gone(node)
    assert node.engine.calls["remove_image"] == 1
    node.check_truth()


async def test_one_that_was_removed_behind_our_back_is_success(node):
    node.engine.images.remove(APP.id, [])
    await node.images.remove(ImageSpec(image="app:1"))
    assert gone(node)
    node.check_truth()


async def test_used_by_one_of_ours_is_known_without_asking(node):
    node.users[APP.id] = ["c" * 64]
    with pytest.raises(ImageInUse, match="c" * 13):
        await node.images.remove(ImageSpec(image="app:1"))
    assert not node.engine.calls
    assert whole(node)


@pytest.mark.parametrize("text", REFERENCES)
async def test_used_by_a_stopped_container_that_is_not_ours(node, text):
    container = await node.engine.create("foreign", ContainerSpec(image="app:2", labels={}))
    with pytest.raises(ImageInUse, match=container[:13]):
        await node.images.remove(ImageSpec(image=text))
    assert whole(node)
    await node.engine.remove(container)
    await node.images.remove(ImageSpec(image=text))
    assert gone(node)


async def test_a_container_that_turns_up_between_look_and_removal_keeps_all_names(node):
    node.engine.script("remove_image", Fail(EngineConflict("in use by a container")))
    with pytest.raises(ImageInUse, match="in use by a container"):
        await node.images.remove(ImageSpec(image="app:1"))
    await node.quiet()
    assert whole(node)
    node.check_truth()


async def test_held_while_a_container_is_being_made_of_it(node):
    with node.images.hold(APP.id), node.images.hold(APP.id), pytest.raises(ImageInUse, match="being made"):
        await node.images.remove(ImageSpec(image="app:1"))
    assert whole(node)
    await node.images.remove(ImageSpec(image="app:1"))
    assert gone(node)


async def test_a_sandbox_image_is_removed_like_any_other(node):
    image_id = await node.images.ensure_sandbox_image()
    await node.images.remove(ImageSpec(image=image_id))
    assert node.images.index.get(image_id) is None


@pytest.mark.parametrize("method", ["list_containers", "remove_image"])
@pytest.mark.parametrize("error", [EngineError("no"), EngineUnavailable("away")])
async def test_a_refusal_leaves_the_image_whole_and_the_next_call_succeeds(node, method, error):
    node.engine.script(method, Fail(error))
    with pytest.raises(type(error)):
        await node.images.remove(ImageSpec(image="app:1"))
    await node.quiet()
    assert whole(node)
    node.check_truth()
    await node.images.remove(ImageSpec(image="app:1"))
    assert gone(node)


async def test_when_the_answer_is_lost_the_engine_is_asked_what_came_of_it(node):
    node.engine.script("remove_image", Drop())
    with pytest.raises(EngineUnavailable):
        await node.images.remove(ImageSpec(image="app:1"))
    await node.quiet()
    assert gone(node)
    node.check_truth()


async def test_engine_away(node):
    node.engine.go_down()
    with pytest.raises(EngineUnavailable):
        await node.images.remove(ImageSpec(image="app:1"))
    with pytest.raises(EngineUnavailable):
        await node.images.remove(ImageSpec(image="absent:1"))
    node.engine.come_back()
    assert whole(node)


async def test_a_cancelled_removal_is_finished_and_the_next_in_line_succeeds(node):
    hang = node.engine.script("remove_image", Hang(after_effect=True))
    first = asyncio.create_task(node.images.remove(ImageSpec(image="app:1")))
    await node.engine.called("remove_image")
    second = asyncio.create_task(node.images.remove(ImageSpec(image="app:2")))
    await settle()
    first.cancel()
    await settle()
    assert not first.done(), "the engine's answer is waited for"
    node.engine.go_down("lost")
    node.engine.come_back()
    results = await asyncio.gather(first, second, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1] is None
    assert hang.hits == 1
    await node.quiet()
    assert gone(node)
    node.check_truth()


async def test_cancelled_at_every_await_it_is_whole_or_gone(new_node, every_await):
    async def make():
        node = new_node()
        node.engine.images.add(APP)
        await node.images.refresh()
        return node

    async for node in every_await(make, lambda node: node.images.remove(ImageSpec(image=APP.id))):
        assert gone(node) or whole(node)
        node.check_truth()
        await node.images.remove(ImageSpec(image="app:1"))
        assert gone(node)


async def test_removal_and_pull_of_one_image_at_once_both_succeed(node):
    for _ in range(5):
        await asyncio.gather(node.images.remove(ImageSpec(image="app:1")), node.images.pull(ImageSpec(image="other:1")))
        assert await node.images.pull(ImageSpec(image="app:1")) == APP.id
    await node.images.refresh()
    node.check_truth()
