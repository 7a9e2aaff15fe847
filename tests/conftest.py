"""Fixtures for all tests.  What each one promises: tests/env/README.md."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.conformance import not_run
from tests.env import front, images, tidiness, world
from tests.env.cni import CniDirs, make_dirs
from tests.env.engine import TestEngine
from tests.env.registry import Registry

ROOT = Path(__file__).resolve().parents[1]

# No test asserts a speed: a busy machine makes neither an example nor their making a failure.
hypothesis.settings.register_profile(
    "crishim", hypothesis.settings(), deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("crishim")


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


def pytest_report_header() -> list[str]:
    """Where the tests run, at the head of the report."""
    if world.folder() is None:
        return ["test world: none (not root): tests that need an engine fail"]
    lines = [f"test world: {world.folder()}"]
    return [*lines, f"runtime front: {front.REASON}"] if front.needed() else lines


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Without crictl and its like a test is told to be not run, also where only a fixture wants them."""
    with not_run.told(item.config):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Likewise."""
    with not_run.told(item.config):
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say so when there was no tool."""
    not_run.summarize(terminalreporter)


@pytest.fixture(scope="session")
def world_folder() -> Path:
    """The test world's folder.  Fails outside a world: the test needs root."""
    folder = world.folder()
    if folder is None:
        pytest.fail("this test needs root: run `sudo make test`")
    return folder


@pytest.fixture(scope="session", autouse=True)
def tidy_session() -> Iterator[None]:
    """Fails the session, by name, if something is left of it when all other fixtures are down."""
    folder = world.folder()
    if folder is None:
        yield
        return
    before = tidiness.take(folder)
    yield
    if lines := tidiness.left(before, folder):
        pytest.fail("left behind by this session:\n  " + "\n  ".join(lines), pytrace=False)


@pytest.fixture
def nothing_left(request: pytest.FixtureRequest, world_folder: Path) -> Iterator[None]:
    """Fails the test, by name, if it leaves something.  What lives as long as the session is started first."""
    engine: TestEngine | None = None
    for name in ("engine", "registry", "auth_registry"):
        if name in request.fixturenames:
            started = request.getfixturevalue(name)
            engine = started if name == "engine" else engine
    before = tidiness.take(world_folder, engine)
    yield
    if lines := tidiness.left(before, world_folder, engine):
        pytest.fail("left behind by this test:\n  " + "\n  ".join(lines), pytrace=False)


@pytest.fixture(scope="session")
def engine(world_folder: Path) -> Iterator[TestEngine]:
    """The Docker Engine that tests share."""
    with TestEngine(world_folder / "tmp" / "engine", binaries=_binaries()) as started:
        yield started


def _binaries() -> Path | None:
    value = os.environ.get("CRISHIM_TEST_ENGINE")
    return Path(value) if value else None


@pytest.fixture(scope="session")
def engine_socket(engine: TestEngine) -> Path:
    """The shared engine's socket."""
    return engine.socket


@pytest.fixture
def new_engine(world_folder: Path) -> Iterator[Callable[..., TestEngine]]:
    """``new_engine(config=, flags=, binaries=, twins=)`` starts an engine of the test's own, to be killed or frozen."""
    with contextlib.ExitStack() as stack:

        def start(
            config: Mapping[str, Any] | None = None,
            flags: Sequence[str] = (),
            binaries: Path | None = None,
            *,
            twins: bool = True,
        ) -> TestEngine:
            folder = Path(tempfile.mkdtemp(prefix="engine-", dir=world_folder / "tmp"))
            return stack.enter_context(TestEngine(folder, binaries or _binaries(), config, flags, twins=twins))

        yield start


@pytest.fixture(scope="session")
def busybox_image(engine: TestEngine) -> str:
    """The reference of the busybox image, which is in the shared engine."""
    images.busybox().load(engine.api, images.BUSYBOX_REF)
    return images.BUSYBOX_REF


@pytest.fixture(scope="session")
def registry(world_folder: Path) -> Iterator[Registry]:
    """A registry on loopback, plain HTTP."""
    with Registry(world_folder / "tmp" / "registry") as started:
        yield started


@pytest.fixture(scope="session")
def auth_registry(world_folder: Path) -> Iterator[Registry]:
    """A registry on loopback, plain HTTP, that wants ``.username`` and ``.password``."""
    with Registry(world_folder / "tmp" / "auth-registry", password=True) as started:
        yield started


@pytest.fixture
def cni_dirs(tmp_path: Path) -> CniDirs:
    """An empty CNI configuration folder and a folder with the reference plugins."""
    return make_dirs(tmp_path / "cni")


@pytest.fixture(scope="session")
def scaled() -> Callable[[int], int]:
    """``scaled(n)``: n in ``make soak`` (CRISHIM_SOAK=1), else a tenth of it, at least 3."""
    return lambda n: n if os.environ.get("CRISHIM_SOAK") == "1" else min(n, max(3, n // 10))
