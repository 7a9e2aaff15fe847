"""critest judges crishim on this session's engine: one test for each spec, all from one run.

A spec that does not pass is listed in expected.toml with its reason, and then reported as xfailed; listed and passing,
or failing and not listed, is a failure.  Specs that critest skips because of what the server answers count as failed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import critest, server, verdict, world
from tests.conformance.verdict import Judged
from tests.env.engine import TestEngine

pytestmark = pytest.mark.engine


def test_all_specs_were_run(judged: Judged) -> None:
    benchmarks = [name for name in judged.specs if "benchmark" in name]
    assert len(benchmarks) == critest.BENCHMARK_SPECS
    assert len(judged.specs) == critest.BENCHMARK_SPECS + critest.VALIDATION_SPECS


def test_listed_specs_exist(judged: Judged) -> None:
    assert not verdict.strangers(judged.expected, judged.specs)


def test_spec(spec_name: str, judged: Judged) -> None:
    spec = judged.specs[spec_name]
    if not judged.expected.judges(judged.engine.key):
        if spec.state != "passed":  # reported only: the contract checks and the crictl walk decide on this engine
            pytest.xfail(f"engine {judged.engine.version} is not judged; {spec.state}: {spec.message}")
        return
    reason = judged.expected.reason(judged.engine.key, spec_name)
    if wrong := verdict.judge(spec, reason):
        pytest.fail(wrong, pytrace=False)
    if spec.state != "passed":
        pytest.xfail(f"{reason}; {spec.state}: {spec.message}")


def test_networking_on_the_embedded_network(
    critest_program: Path, engine: TestEngine, world_folder: Path, base_seed: int
) -> None:
    """The specs of networking once more, without any CNI plugin."""
    place = world_folder / "tmp" / "embedded"
    with (
        world.registries(place / "world", engine.api),
        server.serve(engine.url, place / "crishim", ["--network=embedded"]) as endpoint,
    ):
        specs = critest.run_those(endpoint, base_seed, place / "critest", "Networking")
    assert len(specs) >= 3, specs
    assert [spec for spec in specs if spec.state != "passed"] == []
