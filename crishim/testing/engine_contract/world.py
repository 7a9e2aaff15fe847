"""What the checks need besides an engine: a place of their own in it, and hands on the engine itself."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from crishim.engine.api import Engine
from crishim.engine.values import ContainerPhase, ContainerSpec, EngineContainer
from crishim.errors import CRIError, EngineNotFound

PATIENCE = 30.0
"""Seconds after which something that should happen counts as not happening."""

E = TypeVar("E", bound=CRIError)

_LABEL = "crishim.test/world"


@dataclass(slots=True, kw_only=True)
class World:
    """One check's surroundings."""

    image: str
    """Reference of an image that the engine has, with `sh`, `sleep`, `true` and `false`. Its command is `sh`."""
    folder: Path
    """An existing folder on the engine's machine, for mounts."""
    go_down: Callable[[], Awaitable[None]]
    """Make the engine unreachable at once, as a crash would. Its containers run on."""
    come_back: Callable[[], Awaitable[None]]
    """Make it reachable again; returns once it answers."""
    run_out_of_memory: Callable[[str], Awaitable[None]]
    """Let a container that runs `tail /dev/zero` under a memory limit meet it, where it does not do so by itself."""
    open_calls: Callable[[], int]
    """How many connections, streams and the like the engine holds open for its callers."""
    open_streams: Callable[[], int]
    """How many processes' streams are open on our side."""
    runtime: str = ""
    """Name of a runtime that is not the default one; empty if there is none."""
    prefix: str = field(default_factory=lambda: f"crishim-check-{secrets.token_hex(4)}")
    """Of all names made by the check."""

    @property
    def labels(self) -> dict[str, str]:
        """Labels that all containers of this world carry."""
        return {_LABEL: self.prefix}

    def name(self, suffix: str) -> str:
        """A container's name."""
        return f"{self.prefix}-{suffix}"

    def image_name(self, suffix: str) -> str:
        """An image's name with tag."""
        return f"crishim.test/{self.prefix}:{suffix}"

    def spec(self, *argv: str, labels: dict[str, str] | None = None, **fields: Any) -> ContainerSpec:
        """A container that runs a command line; other fields as ContainerSpec has them."""
        return ContainerSpec(
            image=fields.pop("image", self.image),
            labels=self.labels | (labels or {}),
            entrypoint=argv or ("sleep", "infinity"),
            **fields,
        )

    @asynccontextmanager
    async def container(self, engine: Engine, suffix: str, *argv: str, **fields: Any) -> AsyncIterator[str]:
        """A started container, removed at the end."""
        container_id = await engine.create(self.name(suffix), self.spec(*argv, **fields))
        try:
            await engine.start(container_id)
            yield container_id
        finally:
            with suppress(EngineNotFound):
                await engine.remove(container_id)

    async def clean(self, engine: Engine) -> None:
        """Remove what a check may have left; for use after a failed one."""
        for container_id in await engine.list_containers(self.labels):
            with suppress(CRIError):
                await engine.remove(container_id)
        for image in await engine.list_images():
            for name in image.tags:
                if self.prefix in name:
                    with suppress(CRIError):
                        await engine.remove_image(name)


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Return once it holds; AssertionError that names it when patience ends."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not await holds():
        assert asyncio.get_running_loop().time() < deadline, f"not within {PATIENCE} s: {what}"
        await asyncio.sleep(0.01)


async def soon(waiting: Awaitable[object], what: str) -> None:
    """Await it, with patience."""
    try:
        async with asyncio.timeout(PATIENCE):
            await waiting
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE} s: {what}") from None


async def refused(call: Awaitable[object], error: type[E], what: str) -> E:
    """The error of this class with which a call is refused; AssertionError if it succeeds."""
    try:
        await call
    except error as refusal:
        return refusal
    raise AssertionError(f"{what}: succeeded, but {error.__name__} was expected")


def assert_exited(container: EngineContainer, code: int) -> None:
    """Assert that a container's process has ended with this code, in order."""
    assert container.phase is ContainerPhase.EXITED, container
    assert container.exit_code == code, container
    assert container.pid == 0, container
    assert 0 < container.created_at <= container.started_at <= container.finished_at, container
