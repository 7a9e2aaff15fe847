"""critest's own benchmark, with the parameters that other runtimes were measured by, on a CNI network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure, summarize
from tests.conformance import critest, server, tools, world
from tests.env.engine import TestEngine

PARAMETERS = "containersNumber: 30\npodsNumber: 30\nimagesNumber: 20\n"
"""One after the other: critest's default for what runs at the same time is 1."""


def measure(engine: TestEngine, folder: Path) -> list[Figure]:
    """Run it.  Raises tools.ToolsMissingError when critest is not built, critest.CritestError when a spec fails."""
    tools.critest_path()
    with (
        world.registries(folder / "world", engine.api),
        world.no_segments_left(),
        server.serve(engine.url, folder / "crishim") as endpoint,
    ):
        return figures(critest.measure(endpoint, folder / "critest", PARAMETERS))


def figures(written: Mapping[str, Any]) -> list[Figure]:
    """One for each operation of critest's data files.  Rule: cri-tools, pkg/benchmark/util.go."""
    found = []
    for results in written.values():
        points = [point["operationsDurationsNs"] for point in results["datapoints"]]
        for index, name in enumerate(results["operationsNames"]):
            found.append(summarize(f"critest {name}", [point[index] / 1e6 for point in points]))
    return found
