"""A RunPodSandbox under way, which StopPodSandbox and RemovePodSandbox end before they begin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from crishim.errors import SandboxNotReady


class Making:
    """Made by the task that makes the sandbox; `stop` is for others.

    `running` is where the others find it: id of the sandbox to its making.
    """

    def __init__(self, running: dict[str, Making]) -> None:
        task = asyncio.current_task()
        assert task is not None, "verbs run in tasks"
        self._task = task
        self._running = running
        self._sandbox_id = ""
        self._ended = asyncio.Event()
        self._stopped = False

    def known_as(self, sandbox_id: str) -> None:
        """The sandbox has an id: from now on others see it and can stop it."""
        self._sandbox_id = sandbox_id
        self._running[sandbox_id] = self

    async def stop(self) -> None:
        """End it, and wait until it has undone its work."""
        if not self._stopped:
            self._stopped = True
            self._task.cancel()
        await self._ended.wait()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Around all of the making, undoing included. Raises SandboxNotReady when somebody stopped it.

        A bare cancellation would leave the caller, who has not gone away, without an answer.
        """
        try:
            yield
        except asyncio.CancelledError as error:
            if not self._stopped:
                raise
            raise SandboxNotReady(
                "the sandbox was stopped while it was being made", sandbox=self._sandbox_id
            ) from error
        finally:
            if self._stopped:
                self._task.uncancel()
            self._running.pop(self._sandbox_id, None)
            self._ended.set()
