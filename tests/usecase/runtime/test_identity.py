"""Who a container's process is, where the image's account files decide."""

from __future__ import annotations

from typing import Any

import pytest

from crishim.errors import InvalidArgument
from crishim.model import LinuxContainerConfig, LinuxContainerSecurityContext, SupplementalGroupsPolicy
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
