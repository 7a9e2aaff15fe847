"""One run of critest for a whole session, and the lines about it in pytest's report."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.conformance import cache, critest, not_run, results, server, tools, verdict, world
from tests.conformance.verdict import Judged
from tests.env.engine import TestEngine

JUDGE = "test_critest.py"
ROUNDS = "test_rounds.py"
FRONTED = os.environ.get("CRISHIM_TEST_FRONT") == "1"
"""Whether the engine's fronts ask the judged server."""
SEED = int(os.environ.get("CRISHIM_CRITEST_SEED") or critest.fresh_seed())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """critest takes minutes: it runs when it is named (``pytest tests/conformance``, ``make matrix``; the rounds of
    ``make soak`` by their file's name)."""
    for file, word in ((JUDGE, "conformance"), (ROUNDS, ROUNDS)):
        if collection_path.name == file and not any(word in str(name) for name in config.invocation_params.args):
            return True
    return None


def pytest_report_header() -> str:
    """The seed, with which the order of a run can be had again."""
    return f"critest seed: {SEED} (CRISHIM_CRITEST_SEED)"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each spec of the critest that is built; none where it is not."""
    if "spec_name" in metafunc.fixturenames:
        try:
            names = critest.spec_names()
        except tools.ToolsMissingError as error:
            metafunc.config.stash[not_run.REASON] = f"conformance: not run ({error})"
            names = []
        metafunc.parametrize("spec_name", names, ids=[name.removeprefix("[k8s.io] ") for name in names])


@pytest.fixture(scope="session")
def crictl_program() -> Path:
    """crictl, built."""
    return tools.crictl_path()


@pytest.fixture(scope="session")
def critest_program() -> Path:
    """critest, built."""
    return tools.critest_path()


@pytest.fixture(scope="session")
def base_seed() -> int:
    """The seed that the report's head names."""
    return SEED


@pytest.fixture(scope="session")
def judged(critest_program: Path, engine: TestEngine, world_folder: Path) -> Judged:
    """critest's run against crishim on the shared engine, in a world in which nothing else happens meanwhile."""
    place = world_folder / "tmp" / "judged"
    identity = results.identify(engine.api, front=FRONTED)
    if FRONTED:
        engine.front_asks(place / "crishim" / "run" / "front.sock")
    began = time.monotonic()
    with (
        results.keep_logs(place, cache.folder("results", identity.key)),
        world.registries(place / "world", engine.api),
        world.no_segments_left(),
        server.serve(engine.url, place / "crishim") as endpoint,
    ):
        specs = critest.run(endpoint, SEED, place / "critest")
    seconds = round(time.monotonic() - began, 1)
    results.save(results.Result(identity, tools.version(), results.commit(), SEED, seconds, specs))
    return Judged(identity, {spec.name: spec for spec in specs}, verdict.load())
