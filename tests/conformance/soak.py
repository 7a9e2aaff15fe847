"""``make soak``: the project's tests with their full counts, and critest's rounds, on all engines of the matrix.

``python -m tests.conformance.soak [--engine KEY ...] [--part counts|critest] [-- PYTEST-ARGUMENT ...]``, as root,
outside a test world.  Takes hours; at its end it takes the results into ``docs/soak.md`` and ``docs/soak.json``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.conformance import cache, results, rounds, soak_page, tools
from tests.conformance.engines import MATRIX, MatrixEngine
from tests.conformance.matrix import KINDS, Outcome, session
from tests.conformance.results import EngineIdentity
from tests.streaming_client import build as streaming_client

PARTS = ("counts", "critest")
COUNTED = {True: ("tests",), False: ("tests/contract", "tests/component", "tests/integration")}
"""What runs with its full counts: all on the system's engine, on others what an engine takes part in."""
ROUNDS = ("tests/conformance/test_rounds.py",)
LIMITS = {"counts": 4 * 3600, "critest": 2 * 3600}
"""Seconds for a part on one engine."""


def run(engine: MatrixEngine, part: str, arguments: Sequence[str]) -> Outcome:
    """One part on one engine, in a pytest session and a world of its own."""
    commit = results.commit()
    paths = ROUNDS if part == "critest" else COUNTED[engine.suite is None]
    name = f"soak-{engine.key}-{part}"
    outcome = session(engine, name, [*paths, *arguments], LIMITS[part], {"CRISHIM_SOAK": "1"})
    if part == "counts" and not arguments:
        keep_counts(engine, commit, outcome, cache.folder("results", f"{name}.xml"))
    return outcome


def keep_counts(engine: MatrixEngine, commit: str, outcome: Outcome, report: Path) -> None:
    """Keep what became of the counts, like a round of critest."""
    failed = failures(report) if report.exists() else []
    lines = [*failed, *filter(None, [outcome.fault])]
    states = {kind: outcome.counts[kind] for kind in KINDS if outcome.counts[kind]}
    rounds.save(rounds.Found(identify(engine), rounds.COUNTS, commit, [], round(outcome.seconds, 1), states, lines))


def failures(report: Path) -> list[str]:
    """The tests of a JUnit report that failed, by name, with the first line of why."""
    found = []
    for case in ElementTree.parse(report).iter("testcase"):
        for kind in ("failure", "error"):
            if (fault := case.find(kind)) is not None:
                words = (fault.get("message") or "").partition("\n")[0]
                found.append(f"{case.get('classname')}.{case.get('name')}: {words[:200]}")
    return found


def identify(engine: MatrixEngine) -> EngineIdentity:
    """By its program, without starting it.  Raises RuntimeError when there is none or it does not say."""
    path = f"{engine.folder}" if engine.folder else None
    dockerd = shutil.which("dockerd", path=path) or shutil.which("dockerd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if dockerd is None:
        raise RuntimeError("dockerd is missing: run tests/env/bootstrap.sh engine")
    words = subprocess.run([dockerd, "--version"], capture_output=True, text=True, check=True).stdout
    told = re.search(r"version ([^\s,]+)", words)
    if told is None:
        raise RuntimeError(f"{dockerd} --version says {words!r}")
    key = told[1].partition(".")[0] if engine.suite is None else engine.key
    return EngineIdentity(key, told[1], "")


def main(arguments: Sequence[str]) -> int:
    """Entry point.  Exit status: 0 when every part ran on every engine and nothing failed."""
    keys = [engine.key for engine in MATRIX]
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.soak", description=__doc__)
    parser.add_argument("--engine", action="append", choices=keys, help="only this one (may be repeated)")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one (may be repeated)")
    parser.add_argument("pytest", nargs="*", help="more arguments for pytest")
    chosen = parser.parse_args(arguments)
    not_run = []
    for what, make_ready in (("conformance", tools.make_ready), ("streaming client", streaming_client.make_ready)):
        try:
            make_ready()
        except tools.ToolsMissingError as error:
            not_run.append(f"{what}: not run ({error})")
    outcomes = []
    for engine in MATRIX:
        for part in PARTS:
            if engine.key in (chosen.engine or keys) and part in (chosen.part or PARTS):
                print(f"== engine {engine.key}: {part}", flush=True)
                outcomes.append(run(engine, part, chosen.pytest))
    soak_page.main()
    total = sum((outcome.counts for outcome in outcomes), Counter())
    print("\n".join(["", *map(str, outcomes), *not_run]))
    print(", ".join(f"{total[kind]} {kind}" for kind in KINDS))
    return 0 if all(outcome.good for outcome in outcomes) and not not_run else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
