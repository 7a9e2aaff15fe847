"""The runtime on fakes, in virtual time."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from crishim.checkpoint.record import Carrier
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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The tests of a module that says `EACH_CARRIER = True` run with each, but for those marked `pause`."""
    if "carrier" in metafunc.fixturenames and getattr(metafunc.module, "EACH_CARRIER", False):
        alone = metafunc.definition.get_closest_marker("pause") is not None
        carriers = (Carrier.PAUSE,) if alone else tuple(Carrier)
        metafunc.parametrize("carrier", carriers, ids=[c.value for c in carriers], indirect=True)


@pytest.fixture
def carrier(request: pytest.FixtureRequest) -> Carrier:
    """What carries the pods of the world."""
    chosen: Carrier = getattr(request, "param", Carrier.PAUSE)
    return chosen


@pytest.fixture
async def world(tmp_path: Path, carrier: Carrier) -> AsyncIterator[World]:
    """A world with a server in it; at the end everything is removed and nothing is left."""
    world = World(tmp_path, carrier=carrier)
    await world.start()
    yield world
    await world.check_removable()
    await world.close()
