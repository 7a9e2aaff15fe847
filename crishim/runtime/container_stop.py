"""StopContainer: the stop signal, a time to follow it, then a kill."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from crishim.aiokit.steps import step
from crishim.errors import EngineNotFound, EngineTimeout, InvalidArgument
from crishim.model import ContainerState
from crishim.runtime.core import Runtime


async def stop_container(rt: Runtime, container_id: str, timeout: int) -> None:
    """Stop a container within `timeout` seconds, 0 kills at once (CRI StopContainer); an unknown id is success.

    Every caller waits for itself: a second call with a shorter timeout kills earlier, a cancelled one kills nobody.
    """
    if not container_id:
        raise InvalidArgument("is missing", field="container_id")
    if timeout < 0:
        raise InvalidArgument(f"{timeout} is negative", field="timeout")
    rt.link.need_loaded()
    container = rt.index.find_container(container_id)
    if container is not None:
        await end_container(rt, container.id, grace=timeout)


async def end_container(rt: Runtime, container_id: str, *, grace: float) -> None:
    """Stop a container by full id. A start under way is waited for; what does not run is left alone."""
    async with rt.locks.hold(container_id):
        pass
    container = rt.index.container(container_id)
    if container is None or container.state in (ContainerState.CONTAINER_CREATED, ContainerState.CONTAINER_EXITED):
        return
    killed = False
    with suppress(EngineNotFound):  # removed behind our back: it does not run
        signal = container.live.stop_signal or "SIGTERM"
        if not grace or not await _ended_by(rt, container_id, signal, grace):
            killed = True
            await kill(rt, container_id)
    await rt.watch.refresh(container_id, killed=killed)


async def kill(rt: Runtime, container_id: str) -> None:
    """Kill a container or sandbox and wait until it has ended. Raises EngineTimeout if it does not."""
    if not await _ended_by(rt, container_id, "SIGKILL", rt.settings.kill_wait):
        raise EngineTimeout(
            f"container {container_id[:13]} still runs {rt.settings.kill_wait:g} s after SIGKILL",
            container=container_id,
        )


async def _ended_by(rt: Runtime, container_id: str, signal: str, limit: float) -> bool:
    """Send a signal; say whether the container has ended within `limit` seconds."""
    engine = rt.link.engine
    with step(f"engine {signal}", engine=True):
        await engine.kill(container_id, signal)
    # Not a timeout of the engine's own, which tells nothing of the container.
    limited = asyncio.timeout(limit)
    try:
        with step("engine wait", engine=True):
            async with limited:
                await engine.wait(container_id)
    except TimeoutError:
        if limited.expired():
            return False
        raise
    return True
