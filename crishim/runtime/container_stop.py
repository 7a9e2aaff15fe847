"""StopContainer: the stop signal, a time to follow it, then a kill."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from crishim.aiokit.steps import step
from crishim.errors import EngineNotFound, EngineTimeout, InvalidArgument
from crishim.runtime.core import Runtime


async def stop_container(rt: Runtime, container_id: str, timeout: int) -> None:
    """Stop a container within `timeout` seconds, 0 kills at once (CRI StopContainer); an unknown id is success.

    Every caller waits for itself: a second call with a shorter timeout kills earlier, a cancelled one kills nobody.
    """
    if not container_id:
        raise InvalidArgument("is missing", field="container_id")
    if timeout < 0:
        raise InvalidArgument(f"{timeout} is negative", field="timeout")
    container = rt.index.find_container(container_id)
    if container is not None:
        await end_container(rt, container.id, grace=timeout)


async def end_container(rt: Runtime, container_id: str, *, grace: float) -> None:
    """Stop a container by full id. A start under way is waited for; what does not run is left alone."""
    async with rt.locks.hold(container_id):
        pass
    container = rt.index.container(container_id)
    if container is None or not container.running:
        return
    with suppress(EngineNotFound):  # removed behind our back: it does not run
        if not grace or not await _asked(rt, container_id, container.live.stop_signal or "SIGTERM", grace):
            await kill_and_wait(rt, container_id, "SIGKILL", rt.settings.kill_wait)
    await rt.watch.refresh(container_id)


async def _asked(rt: Runtime, container_id: str, signal: str, grace: float) -> bool:
    """Send the stop signal; say whether the container ended within `grace` seconds."""
    try:
        await kill_and_wait(rt, container_id, signal, grace)
    except EngineTimeout:
        return False
    return True


async def kill_and_wait(rt: Runtime, container_id: str, signal: str, limit: float) -> None:
    """Send a signal and wait until the container has ended. Raises EngineTimeout after `limit` seconds."""
    engine = rt.link.engine
    with step(f"engine {signal}", engine=True):
        await engine.kill(container_id, signal)
    try:
        with step("engine wait", engine=True):
            async with asyncio.timeout(limit):
                await engine.wait(container_id)
    except TimeoutError as error:
        raise EngineTimeout(
            f"container {container_id[:13]} still runs {limit:g} s after {signal}", container=container_id
        ) from error
