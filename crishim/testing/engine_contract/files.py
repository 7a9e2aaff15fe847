"""Checks of looking into containers."""

from __future__ import annotations

from crishim.engine.api import Engine
from crishim.errors import EngineNotFound
from crishim.testing.engine_contract.world import World, refused


async def check_read_file(engine: Engine, world: World) -> None:
    """A file of the image is there before the start and after it; what is no file is None, what is no container not."""
    container_id = await engine.create(world.name("read"), world.spec())
    passwd = await engine.read_file(container_id, "/etc/passwd")
    assert passwd is not None
    assert passwd.startswith(b"root:"), passwd
    assert await engine.read_file(container_id, "/etc/no-such-file") is None
    assert await engine.read_file(container_id, "/etc") is None
    paths = ("/etc/passwd", "/etc", "/etc/no-such-file")
    assert [await engine.has_path(container_id, path) for path in paths] == [True, True, False]
    await engine.start(container_id)
    assert await engine.read_file(container_id, "/etc/passwd") == passwd
    await engine.remove(container_id)
    await refused(engine.read_file(container_id, "/etc/passwd"), EngineNotFound, "a file of a removed container")
    await refused(engine.has_path(container_id, "/etc"), EngineNotFound, "a path of a removed container")
    await refused(engine.read_file("..", "/etc/passwd"), EngineNotFound, "a file of what is no container")
