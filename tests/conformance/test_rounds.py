"""The soak's rounds of critest on this session's engine: a server of its own for each, nothing unexpected in any.

Run when named: ``pytest tests/conformance/test_rounds.py``, ``-k websocket`` for a part.  CRISHIM_CRITEST_SEED repeats
the orders.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import cache, critest, results, rounds, server, world
from tests.conformance.rounds import ROUNDS, TOGETHER, Round
from tests.env.engine import TestEngine

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def outside(critest_program: Path, engine: TestEngine, world_folder: Path) -> Iterator[None]:
    """The registries that specs pull from."""
    with world.registries(world_folder / "tmp" / "rounds", engine.api):
        yield


@pytest.mark.usefixtures("outside", "nothing_left")
@pytest.mark.parametrize(("number", "planned"), list(enumerate(ROUNDS)), ids=[planned.name for planned in ROUNDS])
def test_round(number: int, planned: Round, base_seed: int, engine: TestEngine, world_folder: Path) -> None:
    place = world_folder / "tmp" / planned.name
    identity = results.identify(engine.api)
    seeds = [rounds.seed_of(base_seed, number)]
    began = time.monotonic()
    with (
        results.keep_logs(place, cache.folder("soak", f"{identity.key}.{planned.name}")),
        world.no_segments_left(),
        server.serve(engine.url, place / "crishim") as endpoint,
    ):
        if planned.name == TOGETHER:
            left_out = rounds.alone(critest.spec_names(), critest.serial_names())
            seeds.append(rounds.seed_of(base_seed, number + 1))
            runs = rounds.together(endpoint, (seeds[0], seeds[1]), place, left_out)
        else:
            runs = [critest.run(endpoint, seeds[0], place / "critest", planned.flags)]
    found = rounds.make(identity, planned.name, results.commit(), seeds, time.monotonic() - began, runs)
    rounds.save(found)
    assert sum(found.states.values()) >= critest.VALIDATION_SPECS + critest.BENCHMARK_SPECS
    if found.wrong:
        pytest.fail(f"{len(found.wrong)} not as expected:\n  " + "\n  ".join(found.wrong), pytrace=False)
