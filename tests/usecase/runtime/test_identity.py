"""Who a container's process is, where the image's account files decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crishim.errors import ImageInUse, ImageNotFound, ImageVolumeMountFailed, InvalidArgument
from crishim.model import (
    ImageSpec,
    LinuxContainerConfig,
    LinuxContainerSecurityContext,
    Mount,
    SupplementalGroupsPolicy,
)
from tests.usecase.runtime.world import World


def linux(**context: Any) -> LinuxContainerConfig:
    return LinuxContainerConfig(security_context=LinuxContainerSecurityContext(**context))


async def told(world: World, sandbox: str, name: str, **context: Any) -> tuple[str, int]:
    """The user that the engine was told, and how many containers it was asked for."""
    before = world.engine.calls["create"]
    container = world.in_engine(await world.create(sandbox, name=name, linux=linux(**context)))
    assert container is not None
    return container.user, world.engine.calls["create"] - before


async def test_the_first_container_of_an_image_is_looked_into(world: World) -> None:
    sandbox = await world.run()
    assert await told(world, sandbox, "plain", run_as_user=1000) == ("1000", 1), "the engine merges by itself"
    assert await told(world, sandbox, "first", run_as_username="app") == ("app", 2)
    assert await told(world, sandbox, "second", run_as_username="www-data") == ("www-data", 1), "remembered"
    strict = SupplementalGroupsPolicy.Strict
    assert await told(world, sandbox, "third", run_as_user=1000, supplemental_groups_policy=strict) == ("1000:1000", 1)
    assert len(world.engine.containers) == 5
    await world.check_consistent()
    await world.check_removable()


async def test_a_user_that_the_image_lacks(world: World) -> None:
    sandbox = await world.run()
    for _ in range(2):
        with pytest.raises(InvalidArgument, match="run_as_username"):
            await world.create(sandbox, linux=linux(run_as_username="ghost"))
        assert [container.id for container in world.engine.containers] == [sandbox]
    await world.check_consistent()


async def test_a_folder_that_the_image_lacks(world: World) -> None:
    sandbox = await world.run()
    volume = Mount(container_path="/v", readonly=True, image=ImageSpec(image="busybox"), image_sub_path="no/such")
    with pytest.raises(ImageVolumeMountFailed, match=r"^ImageVolumeMountFailed: /v: the image has no 'no/such'"):
        await world.create(sandbox, mounts=(volume,))
    with pytest.raises(ImageNotFound):
        await world.create(sandbox, mounts=(replace(volume, image=ImageSpec(image="none:1")),))
    assert [container.id for container in world.engine.containers] == [sandbox]
    await world.check_consistent()


async def test_the_image_of_a_volume_is_in_use(world: World) -> None:
    sandbox = await world.run()
    volume = await world.rt.images.pull(ImageSpec(image="files:1"))
    mount = Mount(container_path="/v", readonly=True, image=ImageSpec(image="files:1"))
    container = await world.create(sandbox, mounts=(mount,))
    told = world.rt.index.need_container(container).record.config.mounts[0].image
    assert told is not None
    assert told.image_ref == volume
    with pytest.raises(ImageInUse):
        await world.rt.images.remove(ImageSpec(image=volume))
    await world.restart()
    with pytest.raises(ImageInUse):
        await world.rt.images.remove(ImageSpec(image=volume))
    await world.remove_container(container)
    await world.rt.images.remove(ImageSpec(image=volume))
    await world.check_consistent()
