"""Checks of loading, showing and removing images."""

from __future__ import annotations

import asyncio

from crishim.engine.api import Engine
from crishim.errors import EngineConflict, EngineError, EngineNotFound
from crishim.testing.engine_contract.archive import tiny_archive
from crishim.testing.engine_contract.world import World, refused

_NO_NAMES = ("", "..", "a/../b", "a b", "a?b=c", "a//b", "Ä", "sha256:" + "0" * 64)


async def check_loaded_image_shows_its_configuration(engine: Engine, world: World) -> None:
    """Found by name and by id, in the list and by inspect alike, with all that a container inherits."""
    name = world.image_name("full")
    config = {
        "User": "1000:2000",
        "Entrypoint": ["/bin/run", "--now"],
        "Cmd": ["a", "b c"],
        "Env": ["PATH=/bin", "A=b=c"],
        "WorkingDir": "/work",
        "Labels": {"maintainer": "ä", "empty": ""},
        "Volumes": {"/data": {}, "/cache": {}},
        "StopSignal": "SIGQUIT",
    }
    await engine.load_image(tiny_archive(name, **config))
    image = await engine.inspect_image(name)
    assert image.id.startswith("sha256:")
    assert image.tags == (name,)
    assert image.size > 0
    assert (image.user, image.working_dir, image.stop_signal) == ("1000:2000", "/work", "SIGQUIT")
    assert (image.entrypoint, image.command) == (("/bin/run", "--now"), ("a", "b c"))
    assert image.env == ("PATH=/bin", "A=b=c")
    assert image.labels == {"maintainer": "ä", "empty": ""}
    assert set(image.volumes) == {"/data", "/cache"}
    assert image.created_at > 0
    assert await engine.inspect_image(image.id) == image
    assert [found for found in await engine.list_images() if found.id == image.id] == [image]
    await engine.remove_image(name)
    assert image.id not in {found.id for found in await engine.list_images()}


async def check_load_again(engine: Engine, world: World) -> None:
    """Loading what is there is no error and changes nothing."""
    name = world.image_name("twice")
    await engine.load_image(tiny_archive(name))
    first = await engine.inspect_image(name)
    await engine.load_image(tiny_archive(name))
    assert await engine.inspect_image(name) == first
    await engine.remove_image(first.id)


async def check_bad_archive(engine: Engine, world: World) -> None:
    """What is no image archive is refused, and nothing is stored."""
    before = {image.id for image in await engine.list_images()}
    for archive in (b"this is no archive" * 100, tiny_archive(world.image_name("cut"))[:700]):
        await refused(engine.load_image(archive), EngineError, f"load of {len(archive)} senseless bytes")
    assert {image.id for image in await engine.list_images()} == before


async def check_unknown_images(engine: Engine, world: World) -> None:
    """Inspect and removal of what is not there, or cannot be a name, is EngineNotFound."""
    for reference in (*_NO_NAMES, world.image_name("missing")):
        for name, call in (
            ("inspect", engine.inspect_image(reference)),
            ("removal", engine.remove_image(reference)),
        ):
            await refused(call, EngineNotFound, f"{name} of {reference!r}")


async def check_remove_one_of_two_names(engine: Engine, world: World) -> None:
    """The image stays under its other name, and goes with the last."""
    one, two = world.image_name("one"), world.image_name("two")
    await engine.load_image(tiny_archive(one, two))
    image = await engine.inspect_image(one)
    assert set(image.tags) == {one, two}
    await engine.remove_image(one)
    assert (await engine.inspect_image(two)).tags == (two,)
    await engine.remove_image(two)
    await _assert_gone(engine, one, two, image.id)


async def check_remove_by_id_takes_all_names(engine: Engine, world: World) -> None:
    """Though the image has several."""
    names = [world.image_name(suffix) for suffix in ("red", "green", "blue")]
    await engine.load_image(tiny_archive(*names))
    image = await engine.inspect_image(names[0])
    await engine.remove_image(image.id)
    await _assert_gone(engine, *names, image.id)


async def check_image_in_use_keeps_all_names(engine: Engine, world: World) -> None:
    """An image from which a container was made, even one that never ran, is not removed by id or last name."""
    one, two = world.image_name("used"), world.image_name("used-too")
    await engine.load_image(tiny_archive(one, two, Cmd=["/run"]))
    image = await engine.inspect_image(one)
    container_id = await engine.create(world.name("user"), world.spec(image=one))
    await refused(engine.remove_image(image.id), EngineConflict, "removal by id of an image in use")
    assert set((await engine.inspect_image(image.id)).tags) == {one, two}
    await engine.remove_image(two)
    await refused(engine.remove_image(one), EngineConflict, "removal of the last name of an image in use")
    assert (await engine.inspect_image(image.id)).tags == (one,)
    await engine.remove(container_id)
    await engine.remove_image(image.id)
    await _assert_gone(engine, one, image.id)


async def check_many_image_removals_at_once(engine: Engine, world: World) -> None:
    """One removes it, the others find it gone; nobody hears of a conflict."""
    names = [world.image_name(f"many-{number}") for number in range(3)]
    await engine.load_image(tiny_archive(*names))
    image = await engine.inspect_image(names[0])

    async def remove() -> None:
        try:
            await engine.remove_image(image.id)
        except EngineNotFound:
            return

    await asyncio.gather(*(remove() for _ in range(10)))
    await _assert_gone(engine, *names, image.id)


async def _assert_gone(engine: Engine, *references: str) -> None:
    for reference in references:
        await refused(engine.inspect_image(reference), EngineNotFound, f"inspect of {reference}, which was removed")
