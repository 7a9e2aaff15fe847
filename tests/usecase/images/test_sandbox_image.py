"""The sandbox image: loaded once for all, back when it was taken away, and no call when it is there."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest

from crishim.engine.simulated import Drop, Fail, Hang, Slow
from crishim.engine.simulated.images import made_up
from crishim.errors import CRIError, EngineError, EngineUnavailable, ImageNotFound, InvalidArgument, RegistryUnavailable
from crishim.images.embedded import make_archive
from crishim.images.service import Images, ImageSettings
from crishim.model import ImageSpec

CONFIGURED = made_up("host.example/pause:3")


async def test_the_embedded_image_is_loaded_when_it_is_missing(node):
    image_id = await node.images.ensure_sandbox_image()
    image = node.images.index.get(image_id)
    assert image is not None
    assert image.tags == (make_archive("amd64").tag,) or image.tags == (make_archive("arm64").tag,)
    assert node.images.pinned(image)
    assert not node.images.pinned(made_up("busybox:latest"))
    assert not node.images.pinned(dataclasses.replace(image, tags=("busybox:latest",)))  # anybody can label an image so
    assert node.engine.calls["load_image"] == 1
    node.check_truth()


async def test_where_it_is_known_no_call_is_made(node):
    first = await node.images.ensure_sandbox_image()
    node.engine.calls.clear()
    assert await node.images.ensure_sandbox_image() == first
    assert not node.engine.calls


async def test_one_load_for_all_who_ask_at_once(node):
    ids = await asyncio.gather(*(node.images.ensure_sandbox_image() for _ in range(20)))
    assert len(set(ids)) == 1
    assert node.engine.calls["load_image"] == 1


async def test_one_that_a_former_life_loaded_is_found(node, new_node):
    await node.images.ensure_sandbox_image()
    after = new_node()
    after.engine = node.engine
    node.engine.calls.clear()
    await after.images.ensure_sandbox_image()
    assert dict(node.engine.calls) == {"inspect_image": 1}


async def test_it_comes_back_when_it_was_removed(node):
    first = await node.images.ensure_sandbox_image()
    await node.images.remove(ImageSpec(image=first))
    assert await node.images.ensure_sandbox_image() == first
    node.check_truth()


async def test_it_comes_back_when_it_was_removed_behind_our_back(node):
    first = await node.images.ensure_sandbox_image()
    node.engine.images.remove(first, [])
    assert await node.images.recheck(first) is None
    assert await node.images.ensure_sandbox_image() == first
    node.check_truth()


async def test_another_image_under_its_tag_is_not_taken_for_it(node):
    right = await node.images.ensure_sandbox_image()
    (tag,) = node.images.index.get(right).tags
    node.engine.images.add(dataclasses.replace(made_up("evil:1"), tags=(tag,)))
    await node.images.refresh()
    assert await node.images.ensure_sandbox_image() == right
    await node.images.refresh()
    assert node.images.index.resolve(tag).id == right


@pytest.mark.parametrize(("method", "call"), [("inspect_image", 1), ("load_image", 1), ("inspect_image", 2)])
@pytest.mark.parametrize("fault", [Fail(EngineError("no")), Drop(EngineUnavailable("lost"))])
async def test_a_failed_load_is_told_and_the_next_one_succeeds(node, method, call, fault):
    if (method, call) == ("inspect_image", 1):
        fault = Fail(EngineUnavailable("lost"))  # what is refused anyway cannot be lost on its way
    struck = node.engine.script(method, fault, match=lambda what: node.engine.calls[method] == call)
    with pytest.raises((EngineError, EngineUnavailable)):
        await node.images.ensure_sandbox_image()
    assert struck.hits == 1
    image_id = await node.images.ensure_sandbox_image()
    assert node.engine.images.find(image_id)
    node.check_truth()


async def test_the_load_is_finished_for_others_when_the_first_asker_leaves(node):
    hang = node.engine.script("load_image", Hang())
    first = asyncio.create_task(node.images.ensure_sandbox_image())
    await node.engine.called("load_image")
    second = asyncio.create_task(node.images.ensure_sandbox_image())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait((first,))
    assert not second.done()
    second.cancel()
    await asyncio.wait((second,))
    assert hang.hits == 1
    assert node.engine.hanging == 0
    assert await node.images.ensure_sandbox_image()


async def test_cancelled_at_every_await(new_node, every_await):
    async def make():
        return new_node()

    async for node in every_await(make, lambda node: node.images.ensure_sandbox_image()):
        await node.images.ensure_sandbox_image()
        await node.images.refresh()
        node.check_truth()


async def test_a_configured_one_is_pulled_with_its_credentials(node, tmp_path):
    sent = []
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"auths": {"https://host.example/v1/": {"username": "u", "password": "p"}}}))
    node.engine.script("pull", Fail(EngineError("unused")), match=lambda ref, auth: sent.append((ref, auth)))
    images = Images(
        lambda: node.engine,
        node.background,
        settings=ImageSettings(sandbox_image="host.example/pause:3", sandbox_image_credentials=file),
    )
    assert await images.ensure_sandbox_image() == CONFIGURED.id
    ((reference, auth),) = sent
    assert reference == "host.example/pause:3"
    assert (auth.server, auth.username, auth.password) == ("host.example", "u", "p")
    pulled = images.index.get(CONFIGURED.id)
    assert pulled is not None
    assert images.pinned(pulled)
    assert not images.pinned(made_up("busybox:latest"))
    node.engine.calls.clear()
    assert await images.ensure_sandbox_image() == CONFIGURED.id
    assert not node.engine.calls


async def test_a_configured_one_that_is_there_is_not_pulled(new_node):
    node = new_node(sandbox_image="registry.k8s.io/pause:3.10")
    assert await node.images.ensure_sandbox_image() == made_up("registry.k8s.io/pause:3.10").id
    assert node.engine.calls["pull"] == 0


async def test_nobody_need_wait_for_the_pull(new_node):
    node = new_node(sandbox_image="host.example/pause:3")
    node.engine.script("pull", Slow(0.05))
    for _ in range(3):
        with pytest.raises(ImageNotFound, match="is being pulled"):
            await node.images.ensure_sandbox_image(wait=False)
        await asyncio.sleep(0)
    assert await node.images.ensure_sandbox_image() == CONFIGURED.id
    assert await node.images.ensure_sandbox_image(wait=False) == CONFIGURED.id
    assert node.engine.calls["pull"] == 1


async def test_a_configured_one_that_cannot_be_pulled(new_node):
    node = new_node(sandbox_image="host.example/pause:3")
    node.engine.registry_failures["host.example/pause:3"] = RegistryUnavailable("no route")
    with pytest.raises(RegistryUnavailable):
        await node.images.ensure_sandbox_image()
    node.engine.registry_failures.clear()
    assert await node.images.ensure_sandbox_image() == CONFIGURED.id


async def test_a_configured_id_cannot_be_pulled(new_node):
    node = new_node(sandbox_image="sha256:" + "0" * 64)
    with pytest.raises(ImageNotFound):
        await node.images.ensure_sandbox_image()


def test_a_bad_setting_is_told_at_once(new_node):
    with pytest.raises(InvalidArgument, match="sandbox_image"):
        new_node(sandbox_image="Not A Name")


async def test_engine_away(node):
    node.engine.go_down()
    with pytest.raises(CRIError) as raised:
        await node.images.ensure_sandbox_image()
    assert isinstance(raised.value, EngineUnavailable)
