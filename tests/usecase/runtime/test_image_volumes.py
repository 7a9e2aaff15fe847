"""Image volumes on an engine without mounts of images: who needs a view, and when it goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crishim.errors import ImageInUse, ImageVolumeMountFailed
from crishim.model import ImageSpec, Mount
from crishim.runtime.labels import IMAGE_VIEW, TYPE
from tests.usecase.runtime.scenarios import VOLUME, old_engine
from tests.usecase.runtime.world import World

WHOLE = Mount(container_path="/w", readonly=True, image=ImageSpec(image="busybox"))


def holders(world: World) -> list[str]:
    """Ids of the containers that hold images for views."""
    return [container.id for container in world.engine.containers if container.labels[TYPE] == IMAGE_VIEW]


async def test_one_view_for_all_that_mount_an_image(world: World) -> None:
    pod, _ = await old_engine(world)
    first, second = [await world.create(pod, name=name, mounts=(WHOLE, VOLUME)) for name in ("first", "second")]
    (image,) = world.views.held
    assert world.views.held[image] == (f"/simulated/layers/{image}",)
    assert len(holders(world)) == 1
    for container in (first, second):
        made = world.in_engine(container)
        assert made is not None
        place = world.views.path(image)
        assert [(m.source, m.target, m.readonly, m.image) for m in made.mounts] == [
            (place, "/w", True, False),
            (f"{place}/etc", "/v", True, False),
        ]
    assert holders(world)[0] not in world.states()
    await world.remove_container(first)
    assert list(world.views.held) == [image]
    await world.check_consistent()
    await world.remove_container(second)
    assert (world.views.held, holders(world)) == ({}, [])


async def test_what_the_image_lacks_leaves_nothing(world: World) -> None:
    pod, _ = await old_engine(world)
    bad = replace(VOLUME, image_sub_path="no/such")
    with pytest.raises(ImageVolumeMountFailed, match=r"^ImageVolumeMountFailed: /v: the image has no 'no/such'"):
        await world.create(pod, mounts=(WHOLE, bad))
    assert (world.views.held, holders(world)) == ({}, [])
    user = await world.create(pod, mounts=(WHOLE,))
    with pytest.raises(ImageVolumeMountFailed):
        await world.create(pod, name="bad", mounts=(bad,))
    assert len(world.views.held) == 1, "another needs it"
    await world.remove_container(user)
    assert world.views.held == {}


async def test_layers_that_the_engine_does_not_tell(world: World) -> None:
    pod, _ = await old_engine(world)
    world.engine.facts = replace(world.engine.facts, storage_driver="vfs")
    await world.restart()
    with pytest.raises(ImageVolumeMountFailed, match="overlay2, not vfs"):
        await world.create(pod, mounts=(WHOLE,))
    assert holders(world) == []


@pytest.mark.parametrize("kill", [False, True])
async def test_a_view_outlives_the_server(world: World, kill: bool) -> None:
    pod, _ = await old_engine(world)
    container = await world.create(pod, mounts=(WHOLE,))
    await world.restart(kill=kill)
    assert len(world.views.held) == 1
    (image,) = world.views.held
    with pytest.raises(ImageInUse):
        await world.rt.images.remove(ImageSpec(image=image))
    await world.start_container(container)
    await world.remove_container(container)
    assert (world.views.held, holders(world)) == ({}, [])


async def test_what_a_crash_left_goes_at_the_start(world: World) -> None:
    pod, _ = await old_engine(world)
    container = await world.create(pod, mounts=(WHOLE,))
    await world.server.kill()
    await world.engine.remove(container)
    await world.start()
    assert (world.views.held, holders(world)) == ({}, [])


async def test_what_holds_an_image_keeps_no_lost_pods_network(world: World) -> None:
    """It is listed with what belongs to pods, and is none."""
    pod, _ = await old_engine(world)
    await world.create(pod, mounts=(WHOLE,))
    lost = await world.run(name="lost")
    await world.server.kill()
    await world.store.delete(lost)
    await world.engine.remove(lost)
    await world.start()
    assert len(holders(world)) == 1
    assert world.network.held.keys() == world.namespaces.held.keys() == {pod}


async def test_a_container_that_somebody_else_removes(world: World) -> None:
    pod, _ = await old_engine(world)
    container = await world.create(pod, mounts=(WHOLE,))
    await world.engine.remove(container)
    await world.until(lambda: world.state(container) == "gone")
    await world.node.compare()
    assert (world.views.held, holders(world)) == ({}, [])


async def test_a_view_that_is_gone_is_made_again_at_the_start(world: World) -> None:
    """After a reboot, for one, and even if somebody removed its holder."""
    pod, _ = await old_engine(world)
    container = await world.create(pod, mounts=(WHOLE,))
    (image,) = world.views.held
    world.views.held.clear()
    await world.engine.remove(holders(world)[0])
    await world.start_container(container)
    assert (list(world.views.held), len(holders(world))) == ([image], 1)


async def test_a_holder_of_a_strange_make(world: World) -> None:
    """The name is somebody else's: refused, and theirs stays."""
    pod, _ = await old_engine(world)
    container = await world.create(pod, mounts=(WHOLE,))
    holder = world.in_engine(holders(world)[0])
    assert holder is not None
    spec = next(c.spec for c in world.engine._machine.containers.values() if c.id == holder.id)
    await world.remove_container(container)
    theirs = await world.engine.create(holder.name, replace(spec, labels={TYPE: "mine"}))
    with pytest.raises(ImageVolumeMountFailed, match="is held by"):
        await world.create(pod, mounts=(WHOLE,))
    assert world.in_engine(theirs) is not None
    await world.engine.remove(theirs)


async def test_an_engine_that_shows_images_needs_no_view(world: World) -> None:
    """Not even after an upgrade: what was made before keeps its view until it is removed."""
    pod, _ = await old_engine(world)
    before = await world.create(pod, mounts=(WHOLE,))
    world.engine.facts = replace(world.engine.facts, api_version=(1, 48))
    await world.restart()
    assert len(world.views.held) == 1
    after = world.in_engine(await world.create(pod, name="after", mounts=(WHOLE,)))
    assert after is not None
    assert [mount.image for mount in after.mounts] == [True]
    await world.remove_container(before)
    assert len(world.views.held) == 1, "the index does not tell who mounts which way"
    await world.remove_container(after.id)
    assert (world.views.held, holders(world)) == ({}, [])
