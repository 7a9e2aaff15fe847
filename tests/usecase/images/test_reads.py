"""ListImages, ImageStatus, the index's upkeep: from memory, true, and without the engine where that is promised."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from crishim.engine.simulated import Drop, Fail, Hang, settle
from crishim.engine.simulated.images import made_up
from crishim.engine.values import EngineEvent
from crishim.errors import AmbiguousId, EngineError, EngineUnavailable, ImageNotFound, InvalidArgument
from crishim.model import ImageFilter, ImageSpec

BUSYBOX = made_up("busybox:latest")
APP = made_up("host.example/app:1")


async def test_reads_of_what_is_known_ask_the_engine_nothing(node):
    listed = node.images.list()
    assert {image.id for image in listed} == {image.id for image in node.engine.images.all()}
    names = ("busybox", "docker.io/library/busybox:latest", BUSYBOX.digests[0])
    for text in (*names, BUSYBOX.id, BUSYBOX.id[7:], BUSYBOX.id[7:19]):
        assert await node.images.status(ImageSpec(image=text)) == BUSYBOX
        assert node.images.list(ImageFilter(image=ImageSpec(image=text))) == (BUSYBOX,)
        assert await node.images.resolve_for_container(text) == BUSYBOX
    assert not node.engine.calls


async def test_filters(node):
    assert len(node.images.list(ImageFilter())) == len(node.images.list(ImageFilter(image=ImageSpec()))) == 2
    assert node.images.list(ImageFilter(image=ImageSpec(image="absent:1"))) == ()
    with pytest.raises(InvalidArgument, match=r"^filter\.image\.image: "):
        node.images.list(ImageFilter(image=ImageSpec(image="Bad")))
    assert not node.engine.calls


async def test_a_missing_image_is_asked_of_the_engine_once(node):
    assert await node.images.status(ImageSpec(image="absent:1")) is None
    assert dict(node.engine.calls) == {"inspect_image": 1}
    with pytest.raises(ImageNotFound, match="absent:1"):
        await node.images.resolve_for_container("absent:1")


async def test_an_image_that_came_unseen_is_found_and_kept(node):
    node.engine.images.add(APP)
    assert await node.images.status(ImageSpec(image="host.example/app:1")) == APP
    node.engine.calls.clear()
    assert await node.images.status(ImageSpec(image=APP.id)) == APP
    assert not node.engine.calls


async def test_an_image_that_came_unseen_is_found_by_the_beginning_of_its_id(node):
    node.engine.images.add(APP)
    assert await node.images.status(ImageSpec(image=APP.id[7:19])) == APP


async def test_a_name_with_tag_is_never_taken_for_an_id(node):
    assert await node.images.status(ImageSpec(image=f"{BUSYBOX.id[7:19]}:latest")) is None
    assert await node.images.status(ImageSpec(image=f"busybox:{BUSYBOX.id[7:]}")) is None


@pytest.mark.parametrize("text", ["", "Bad", "a b", "https://x/y"])
async def test_what_is_no_reference_is_refused_before_the_engine_is_asked(node, text):
    with pytest.raises(InvalidArgument, match=r"^image\.image: "):
        await node.images.status(ImageSpec(image=text))
    with pytest.raises(InvalidArgument, match=r"^config\.image\.image: "):
        await node.images.resolve_for_container(text)
    assert not node.engine.calls


async def test_an_ambiguous_prefix_is_told(node):
    other_end = "0" if BUSYBOX.id[-1] != "0" else "1"
    twin = dataclasses.replace(BUSYBOX, id=BUSYBOX.id[:-1] + other_end, tags=(), digests=())
    node.engine.images.add(twin)
    await node.images.refresh()
    with pytest.raises(AmbiguousId):
        await node.images.status(ImageSpec(image=BUSYBOX.id[7:30]))


async def test_missing_cannot_be_told_while_the_engine_is_away(node):
    node.engine.go_down()
    assert await node.images.status(ImageSpec(image="busybox")) == BUSYBOX
    with pytest.raises(EngineUnavailable):
        await node.images.status(ImageSpec(image="absent:1"))


@pytest.mark.parametrize("fault", [Fail(EngineError("no")), Drop()])
async def test_a_failed_refresh_leaves_what_was_known(node, fault):
    node.engine.script("list_images", fault)
    before = node.images.list()
    with pytest.raises((EngineError, EngineUnavailable)):
        await node.images.refresh()
    assert node.images.list() == before
    node.check_truth()


async def test_refresh_sees_all_changes(node):
    node.engine.images.remove(BUSYBOX.id, [])
    node.engine.images.add(APP)
    await node.images.refresh()
    node.check_truth()


async def test_events_keep_the_index_true(node):
    async with node.listening():
        async with node.engine.pull("host.example/app:1", None) as stream:
            async for _ in stream:
                pass
        await node.engine.remove_image("busybox:latest")
        await node.quiet_events()
        assert node.images.index.get(APP.id) == APP
        assert node.images.index.get(BUSYBOX.id) is None
    node.check_truth()


async def test_an_untagged_name_is_noticed(node):
    image = node.engine.images.add(dataclasses.replace(BUSYBOX, tags=("busybox:2",)))
    await node.images.refresh()
    assert node.images.index.resolve("busybox:2") == image
    async with node.listening():
        await node.engine.remove_image("busybox:2")
        await node.quiet_events()
    assert node.images.index.resolve("busybox:2") is None
    node.check_truth()


async def test_a_burst_of_events_of_one_image_is_taken_together(node):
    event = EngineEvent(kind="image", action="tag", id=BUSYBOX.id, time=1, attributes={})
    for _ in range(50):
        node.images.on_event(event)
    await node.engine.called("inspect_image")
    for _ in range(50):
        node.images.on_event(event)  # the answer on its way may be older than these
    await node.quiet()
    assert node.engine.calls["inspect_image"] == 2


async def test_events_that_change_nothing_ask_nothing(node):
    node.images.on_event(EngineEvent(kind="container", action="start", id="x", time=1, attributes={}))
    for action, name in (("push", "busybox"), ("prune", "")):
        node.images.on_event(EngineEvent(kind="image", action=action, id=name, time=1, attributes={}))
    await node.quiet()
    assert not node.engine.calls


async def test_an_event_whose_word_is_no_reference_harms_nothing(node):
    node.images.on_event(EngineEvent(kind="image", action="delete", id="NO SUCH", time=1, attributes={}))
    await node.quiet()
    node.check_truth()


async def test_an_event_while_the_engine_goes_away_is_made_good_by_the_next_refresh(node, caplog):
    node.engine.images.remove(BUSYBOX.id, [])
    node.engine.go_down()
    node.images.on_event(EngineEvent(kind="image", action="delete", id=BUSYBOX.id, time=1, attributes={}))
    await node.quiet()
    assert node.images.index.get(BUSYBOX.id) == BUSYBOX
    assert not caplog.records
    node.engine.come_back()
    await node.images.refresh()
    node.check_truth()


async def test_an_image_that_cannot_be_read_is_told_in_the_log_and_stays(node, caplog):
    node.engine.script("inspect_image", Fail(EngineError("disk on fire")))
    node.images.on_event(EngineEvent(kind="image", action="tag", id=BUSYBOX.id, time=1, attributes={}))
    await node.quiet()
    assert "disk on fire" in caplog.text
    node.check_truth()


async def test_a_list_that_was_asked_before_a_pull_ends_does_not_lose_its_image(node):
    node.engine.script("list_images", Hang(after_effect=True))
    refresh = asyncio.create_task(node.images.refresh())
    await node.engine.called("list_images")
    await settle()
    image_id = await node.images.pull(ImageSpec(image="host.example/app:1"))
    refresh.cancel()
    await asyncio.wait((refresh,))
    assert node.images.index.get(image_id) == APP
    node.check_truth()


async def test_recheck_finds_out_that_an_image_is_gone(node):
    node.engine.images.remove(BUSYBOX.id, [])
    assert await node.images.recheck(BUSYBOX.id) is None
    node.check_truth()


async def test_every_read_cancelled_at_every_await(new_node, every_await):
    async def make():
        node = new_node()
        node.engine.images.add(APP)
        return node

    async for node in every_await(make, lambda node: node.images.refresh()):
        await node.images.refresh()
        node.check_truth()
    async for node in every_await(make, lambda node: node.images.status(ImageSpec(image=APP.id[7:19]))):
        assert await node.images.status(ImageSpec(image=APP.id[7:19])) == APP
