"""Checks of creating, showing, finding and changing containers."""

from __future__ import annotations

from dataclasses import replace

from crishim.engine.api import Engine
from crishim.engine.values import ContainerPhase, EngineContainer, EngineMount, EngineResources
from crishim.errors import EngineConflict, EngineError, EngineNotFound
from crishim.testing.engine_contract.world import World, refused

_MIB = 1 << 20
_UNKNOWN = "0123456789abcdef" * 4


def _unforeseeable(shown: EngineContainer) -> EngineContainer:
    """Without what nobody but the engine can know."""
    return replace(shown, created_at=0, resolv_conf_path="", hosts_path="", image_layers=(), merged_dir="")


async def check_created_container_shows_what_was_asked(engine: Engine, world: World) -> None:
    """Every field of a spec that inspect shows comes back as it was given."""
    resources = EngineResources(
        cpu_shares=512,
        cpu_quota=50_000,
        cpu_period=100_000,
        cpuset_cpus="0",
        cpuset_mems="0",
        memory=64 * _MIB,
        memory_swap=64 * _MIB,
        pids_limit=77,
    )
    mounts = (
        EngineMount(source=str(world.folder), target="/data", readonly=True),
        EngineMount(source=str(world.folder), target="/work", propagation="rslave"),
    )
    spec = world.spec(
        "sh",
        "-c",
        labels={"empty": "", "with space": "ä=b, c", "annotation.x": '{"json": [1]}'},
        command=("sleep infinity", "arg 0"),
        env=(("A", "1"), ("EMPTY", ""), ("EQUALS", "a=b=c")),
        working_dir="/tmp",  # noqa: S108 - a folder in the container
        user="1000:1000",
        hostname="pod-1",
        tty=True,
        stdin=True,
        stdin_once=True,
        stop_signal="SIGUSR1",
        runtime=world.runtime,
        ipc_mode="shareable",
        pid_mode="host",
        privileged=True,
        oom_score_adj=500,
        resources=resources,
        mounts=mounts,
    )
    container_id = await engine.create(world.name("full"), spec)
    shown = await engine.inspect(container_id)
    assert _unforeseeable(
        engine.foresee(container_id, world.name("full"), spec, await engine.inspect_image(world.image))
    ) == (_unforeseeable(shown))
    assert shown.id == container_id
    assert len(container_id) == 64
    assert shown.name == world.name("full")
    assert shown.image == world.image
    assert shown.image_id == (await engine.inspect_image(world.image)).id
    assert (shown.phase, shown.pid, shown.exit_code, shown.error) == (ContainerPhase.CREATED, 0, 0, "")
    assert shown.created_at > 0
    assert (shown.started_at, shown.finished_at) == (0, 0)
    assert shown.log_driver == "json-file"
    assert shown.labels.items() >= spec.labels.items()
    assert shown.entrypoint == spec.entrypoint
    assert shown.command == spec.command
    assert {f"{name}={value}" for name, value in spec.env} <= set(shown.env)
    assert shown.mounts == mounts
    assert shown.resources == resources
    assert shown.network_mode == "none"
    if world.runtime:
        assert shown.runtime == world.runtime
    for field in ("working_dir", "user", "tty", "stdin", "stdin_once", "stop_signal", "ipc_mode", "pid_mode"):
        assert getattr(shown, field) == getattr(spec, field), field
    for field in ("privileged", "oom_score_adj"):
        assert getattr(shown, field) == getattr(spec, field), field
    assert await engine.inspect(world.name("full")) == shown
    await engine.remove(container_id)


async def check_unsaid_fields_are_the_images(engine: Engine, world: World) -> None:
    """An empty command line is the image's; limits that were not given are none."""
    spec = world.spec()
    bare = type(spec)(image=spec.image, labels=spec.labels)
    container_id = await engine.create(world.name("bare"), bare)
    shown = await engine.inspect(container_id)
    image = await engine.inspect_image(world.image)
    assert _unforeseeable(engine.foresee(container_id, world.name("bare"), bare, image)) == _unforeseeable(shown)
    assert (shown.entrypoint, shown.command) == (image.entrypoint, image.command)
    assert set(image.env) <= set(shown.env)
    assert shown.runtime
    assert not any(
        (shown.tty, shown.stdin, shown.stdin_once, shown.privileged, shown.mounts, shown.user, shown.oom_score_adj)
    )
    assert not shown.resources.memory
    assert not shown.resources.cpu_quota
    await engine.remove(container_id)


async def check_name_is_given_once(engine: Engine, world: World) -> None:
    """A second container of a name is refused as a conflict and changes nothing; a removed one frees its name."""
    first = await engine.create(world.name("twin"), world.spec())
    await refused(engine.create(world.name("twin"), world.spec()), EngineConflict, "a second container of a name")
    assert list(await engine.list_containers(world.labels)) == [first]
    await engine.remove(first)
    second = await engine.create(world.name("twin"), world.spec())
    assert second != first
    await engine.remove(second)


async def check_create_of_unknown_image(engine: Engine, world: World) -> None:
    """An image that is not there: EngineNotFound, and no container is left."""
    spec = world.spec(image=world.image_name("missing"))
    await refused(engine.create(world.name("lost"), spec), EngineNotFound, "a container of no image")
    assert not await engine.list_containers(world.labels)


async def check_create_with_unknown_runtime(engine: Engine, world: World) -> None:
    """A runtime that the engine does not have is refused, at the create or at the latest at the start."""

    async def create_and_start() -> None:
        container_id = await engine.create(world.name("odd"), world.spec(runtime="no-such-runtime"))
        await engine.start(container_id)

    await refused(create_and_start(), EngineError, "a container with an unknown runtime")
    await world.clean(engine)


async def check_unknown_ids(engine: Engine, world: World) -> None:
    """Every call on what is not there, or cannot be, is EngineNotFound."""
    for unknown in (_UNKNOWN, world.name("nobody"), "", "..", "a/b", "a?b"):
        for name, call in (
            ("start", engine.start(unknown)),
            ("kill", engine.kill(unknown, "SIGKILL")),
            ("wait", engine.wait(unknown)),
            ("remove", engine.remove(unknown)),
            ("update", engine.update(unknown, EngineResources(cpu_shares=100))),
            ("inspect", engine.inspect(unknown)),
        ):
            await refused(call, EngineNotFound, f"{name} of {unknown!r}")


async def check_list_by_labels_and_image(engine: Engine, world: World) -> None:
    """All labels must fit; an empty value asks for the key alone; the image narrows further."""
    image = await engine.inspect_image(world.image)
    red = await engine.create(world.name("red"), world.spec(labels={"color": "red"}))
    blue = await engine.create(world.name("blue"), world.spec(labels={"color": "blue", "size": "a=b"}))
    plain = await engine.create(world.name("plain"), world.spec())
    await engine.start(red)

    async def found(labels: dict[str, str], image_id: str = "") -> set[str]:
        ids = await engine.list_containers(world.labels | labels, image=image_id)
        assert len(ids) == len(set(ids))
        return set(ids)

    assert await found({}) == {red, blue, plain}
    assert await found({"color": "red"}) == {red}
    assert await found({"color": ""}) == {red, blue}
    assert await found({"color": "blue", "size": "a=b"}) == {blue}
    assert await found({"color": "red", "size": ""}) == set()
    assert await found({}, image.id) == {red, blue, plain}
    assert await found({}, "sha256:" + _UNKNOWN) == set()
    assert {red, blue, plain} <= set(await engine.list_containers())
    assert {red, blue, plain} <= set(await engine.list_containers(image=image.id))
    for container_id in (red, blue, plain):
        await engine.remove(container_id)


async def check_update(engine: Engine, world: World) -> None:
    """What is given changes, the rest stays; 0 takes a limit away; a created container can be updated, too."""
    before = EngineResources(
        cpu_shares=512, cpu_quota=50_000, cpu_period=100_000, memory=64 * _MIB, memory_swap=64 * _MIB, pids_limit=77
    )
    async with world.container(engine, "grow", resources=before) as container_id:
        await engine.update(container_id, EngineResources(cpu_quota=75_000, cpu_shares=256))
        shown = (await engine.inspect(container_id)).resources
        assert (shown.cpu_quota, shown.cpu_shares, shown.cpu_period) == (75_000, 256, 100_000)
        assert (shown.memory, shown.memory_swap, shown.pids_limit) == (64 * _MIB, 64 * _MIB, 77)
        await engine.update(container_id, EngineResources(memory=96 * _MIB, memory_swap=128 * _MIB))
        shown = (await engine.inspect(container_id)).resources
        assert (shown.memory, shown.memory_swap, shown.cpu_quota) == (96 * _MIB, 128 * _MIB, 75_000)
        await engine.update(container_id, EngineResources(cpu_quota=0, pids_limit=0, cpu_shares=0))
        shown = (await engine.inspect(container_id)).resources
        assert (shown.cpu_quota, shown.pids_limit) == (0, 0)
        assert shown.cpu_shares in (0, 1024), "neither unset nor the usual weight"
        await engine.update(container_id, EngineResources(memory=0, memory_swap=-1))
        shown = (await engine.inspect(container_id)).resources
        assert (shown.memory, shown.memory_swap) == (0, -1)
    created = await engine.create(world.name("early"), world.spec(resources=before))
    await engine.update(created, EngineResources(cpu_shares=300))
    assert (await engine.inspect(created)).resources.cpu_shares == 300
    await engine.remove(created)


async def check_refused_update_changes_nothing(engine: Engine, world: World) -> None:
    """A memory limit above that of memory and swap is refused, and all stays as it was."""
    limits = EngineResources(cpu_shares=512, memory=64 * _MIB, memory_swap=64 * _MIB)
    async with world.container(engine, "tight", resources=limits) as container_id:
        before = (await engine.inspect(container_id)).resources
        beyond = EngineResources(cpu_shares=300, memory=128 * _MIB)
        await refused(engine.update(container_id, beyond), EngineError, "a memory limit above that with swap")
        assert (await engine.inspect(container_id)).resources == before
