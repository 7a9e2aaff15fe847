"""One scenario per verb: a pod in the state that gives the verb most to do, and the call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from crishim.checkpoint.record import Carrier
from crishim.errors import ExecFailed, ExecTimeout
from crishim.model import ImageSpec, LinuxContainerConfig, LinuxContainerSecurityContext, Mount
from tests.usecase.runtime.world import ANCHORED_HOST_NETWORK, HOST_NETWORK, SHARING, World

Call = Callable[[World, str, str], Coroutine[Any, Any, object]]


@dataclass(frozen=True)
class Scenario:
    """`prepare` gives the ids of sandbox and container (empty where there is none) to `call`."""

    prepare: Callable[[World], Awaitable[tuple[str, str]]]
    call: Call

    carrier: Carrier = Carrier.PAUSE

    def bound(self, world: World, ids: tuple[str, str]) -> Callable[[], Coroutine[Any, Any, object]]:
        """The call, ready to be made."""
        return lambda: self.call(world, *ids)


NAMED_USER = LinuxContainerConfig(security_context=LinuxContainerSecurityContext(run_as_username="app"))

VOLUME = Mount(container_path="/v", readonly=True, image=ImageSpec(image="busybox"), image_sub_path="etc")


async def nothing(world: World) -> tuple[str, str]:
    """No pod."""
    return "", ""


async def sandbox(world: World) -> tuple[str, str]:
    """A pod without containers."""
    return await world.run(), ""


async def old_engine(world: World) -> tuple[str, str]:
    """A pod without containers, on an engine without mounts of images."""
    world.engine.facts = replace(world.engine.facts, api_version=(1, 41), storage_driver="overlay2")
    await world.restart()
    return await sandbox(world)


async def viewer(world: World) -> tuple[str, str]:
    """The same with a container that has an image mounted, and was not started."""
    pod, _ = await old_engine(world)
    return pod, await world.create(pod, mounts=(VOLUME,))


async def unseen(world: World) -> tuple[str, str]:
    """The same, and the view of the image is gone."""
    pod, container = await viewer(world)
    world.views.held.clear()
    return pod, container


async def created(world: World) -> tuple[str, str]:
    """A pod whose container was not started."""
    pod = await world.run()
    return pod, await world.create(pod)


async def running(world: World) -> tuple[str, str]:
    """A pod with a container that runs, one that was not started and one that has ended."""
    pod = await world.run()
    container = await world.run_container(pod)
    await world.create(pod, name="second")
    await world.run_container(pod, name="third", command=("true",))
    await world.quiet()
    return pod, container


async def stubborn(world: World) -> tuple[str, str]:
    """A pod with a container that ignores SIGTERM."""
    pod = await world.run()
    return pod, await world.run_container(pod, command=("serve", "ignore-term"))


async def stopped(world: World) -> tuple[str, str]:
    """A pod that was stopped, with a container."""
    pod, container = await running(world)
    await world.stop(pod)
    return pod, container


async def parrot(world: World) -> tuple[str, str]:
    """A pod with a container that says again what it is told."""
    pod = await world.run()
    return pod, await world.run_container(pod, command=("cat",), stdin=True)


async def in_vain(world: World, container: str, *command: str) -> None:
    """A command that does not come to its end."""
    with suppress(ExecFailed, ExecTimeout):
        await world.exec_sync(container, *command, timeout=3)


async def exec_and_leave(world: World, container: str) -> None:
    """An exec whose client has something to say, and goes."""
    streams = await world.exec(container, "cat")
    try:
        await streams.write(b"hello")
        assert await streams.read()
    finally:
        await streams.close()


async def attach_and_leave(world: World, container: str) -> None:
    """The same with the container's own process."""
    streams = await world.attach(container)
    try:
        await streams.write(b"hello")
        assert await streams.read()
    finally:
        await streams.close()


SCENARIOS: dict[str, Scenario] = {
    "run": Scenario(nothing, lambda w, s, c: w.run()),
    "run host network": Scenario(nothing, lambda w, s, c: w.run(linux=HOST_NETWORK)),
    "stop": Scenario(running, lambda w, s, c: w.stop(s)),
    "stop again": Scenario(stopped, lambda w, s, c: w.stop(s)),
    "remove running": Scenario(running, lambda w, s, c: w.remove(s)),
    "remove stopped": Scenario(stopped, lambda w, s, c: w.remove(s)),
    "create": Scenario(sandbox, lambda w, s, c: w.create(s)),
    "create with an image volume": Scenario(sandbox, lambda w, s, c: w.create(s, mounts=(VOLUME,))),
    "create with a view of an image": Scenario(old_engine, lambda w, s, c: w.create(s, mounts=(VOLUME,))),
    "start with a view that is gone": Scenario(unseen, lambda w, s, c: w.start_container(c)),
    "remove the last that needs a view": Scenario(viewer, lambda w, s, c: w.remove_container(c)),
    "create with a user of the image": Scenario(sandbox, lambda w, s, c: w.create(s, linux=NAMED_USER)),
    "start": Scenario(created, lambda w, s, c: w.start_container(c)),
    "stop container at once": Scenario(running, lambda w, s, c: w.stop_container(c, 0)),
    "stop container": Scenario(running, lambda w, s, c: w.stop_container(c, 30)),
    "stop stubborn container": Scenario(stubborn, lambda w, s, c: w.stop_container(c, 30)),
    "remove container": Scenario(running, lambda w, s, c: w.remove_container(c)),
    "update container": Scenario(
        running, lambda w, s, c: w.update_container(c, memory_limit_in_bytes=64 << 20, cpu_shares=512, oom_score_adj=5)
    ),
    "exec sync": Scenario(running, lambda w, s, c: w.exec_sync(c, "sleep", "5", timeout=30)),
    "exec sync of what is missing": Scenario(running, lambda w, s, c: in_vain(w, c, "/missing")),
    "exec sync that takes too long": Scenario(running, lambda w, s, c: in_vain(w, c, "sleep", "100")),
    "exec": Scenario(running, lambda w, s, c: exec_and_leave(w, c)),
    "attach": Scenario(parrot, lambda w, s, c: attach_and_leave(w, c)),
    "reopen log": Scenario(running, lambda w, s, c: w.reopen_log(c)),
    "update pod": Scenario(sandbox, lambda w, s, c: w.update_pod(s, cpu_shares=512)),
}

_OF_CARRIERS = (
    "run",
    "stop",
    "stop again",
    "remove running",
    "remove stopped",
    "create",
    "start",
    "stop container",
    "remove container",
    "update pod",
)
"""What takes other steps for a pod that is anchored."""
SCENARIOS |= {f"{name}, anchored": replace(SCENARIOS[name], carrier=Carrier.ANCHORED) for name in _OF_CARRIERS}
SCENARIOS["run host network, anchored"] = Scenario(
    nothing, lambda w, s, c: w.run(linux=ANCHORED_HOST_NETWORK), Carrier.ANCHORED
)


def _sharing(scenario: Scenario) -> Scenario:
    """The same with pods that are anchored and share their PID namespace."""

    async def prepare(world: World) -> tuple[str, str]:
        world.linux = SHARING
        return await scenario.prepare(world)

    return replace(scenario, prepare=prepare, carrier=Carrier.ANCHORED)


async def without_process(world: World) -> tuple[str, str]:
    """A pod whose process has ended, and a container that was not started."""
    pod, container = await created(world)
    await world.engine.kill(world.objects[pod].id, "SIGKILL")
    await world.quiet()
    return pod, container


SCENARIOS |= {f"{name}, sharing processes": _sharing(SCENARIOS[name]) for name in ("run", "stop", "remove running")}
SCENARIOS["start without the process"] = _sharing(Scenario(without_process, SCENARIOS["start"].call))
