"""The runtime on fakes, in virtual time."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from crishim.images.embedded import make_archive
from crishim.runtime import node
from tests.usecase.runtime.virtual_time import VirtualTimeLoop
from tests.usecase.runtime.world import World


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], Any]]:
    """All async tests here run in virtual time."""
    return {"virtual": VirtualTimeLoop}


@pytest.fixture(autouse=True)
def one_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox image's archive is made once, not for each of thousands of worlds."""
    monkeypatch.setattr("crishim.images.image_sandbox.make_archive", _make_archive)


@pytest.fixture(autouse=True)
def no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runtimes are not asked what they can do: virtual time would not wait for a program."""

    async def recursing(_programs: object, runtimes: Iterable[str]) -> frozenset[str]:
        return frozenset(runtimes)

    monkeypatch.setattr(node, "recursing", recursing)


_make_archive = functools.cache(make_archive)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory: these tests make and remove files by the ten thousand, and none is about a disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="crishim-", dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A world with a server in it; at the end everything is removed and nothing is left."""
    world = World(tmp_path)
    await world.start()
    yield world
    await world.check_removable()
    await world.close()
