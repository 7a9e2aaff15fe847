"""Fixtures for all tests.  What each one promises: tests/env/README.md."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.env import images, world
from tests.env.engine import TestEngine

ROOT = Path(__file__).resolve().parents[1]


def pytest_configure(config: pytest.Config) -> None:
    """As root and not in a test world yet: become a pytest in one (with the same arguments)."""
    if os.geteuid() != 0 or world.folder() is not None:
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.stop_global_capturing()  # gives the terminal back to the descriptors that the new process inherits
    sys.stdout.flush()
    sys.stderr.flush()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", *config.invocation_params.args]
    os.execv(sys.executable, [sys.executable, "-m", "tests.env.world", "--", *command])


@pytest.fixture(scope="session")
def world_folder() -> Path:
    """The test world's folder.  Fails outside a world: the test needs root."""
    folder = world.folder()
    if folder is None:
        pytest.fail("this test needs root: run `sudo make test`")
    return folder


@pytest.fixture(scope="session")
def engine(world_folder: Path) -> Iterator[TestEngine]:
    """The Docker Engine that tests share."""
    with TestEngine(world_folder / "tmp" / "engine") as started:
        yield started


@pytest.fixture(scope="session")
def engine_socket(engine: TestEngine) -> Path:
    """The shared engine's socket."""
    return engine.socket


@pytest.fixture(scope="session")
def busybox_image(engine: TestEngine) -> str:
    """The reference of the busybox image, which is in the shared engine."""
    images.busybox().load(engine.api, images.BUSYBOX_REF)
    return images.BUSYBOX_REF


@pytest.fixture(scope="session")
def scaled() -> Callable[[int], int]:
    """``scaled(n)``: n in ``make soak`` (CRISHIM_SOAK=1), else a tenth of it, at least 3."""
    return lambda n: n if os.environ.get("CRISHIM_SOAK") == "1" else min(n, max(3, n // 10))
