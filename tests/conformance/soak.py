"""``make soak``: the project's tests with their full counts, and critest's rounds, on all engines of the matrix.

``python -m tests.conformance.soak [--engine KEY ...] [--part counts|critest] [--piece PATH ...] [-- PYTEST-ARGUMENT
...]``, as root, outside a test world.  Takes hours; at its end it takes the results into ``docs/soak.md`` and
``docs/soak.json``.  The counts are run in pieces (``--list`` names them), each of which can be run alone.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from tests.conformance import cache, results, rounds, soak_page, tools
from tests.conformance.engines import MATRIX, MatrixEngine
from tests.conformance.matrix import KINDS, Outcome, session
from tests.conformance.results import EngineIdentity
from tests.env.cache import ROOT
from tests.streaming_client import build as streaming_client

PARTS = ("counts", "critest")
WITH_AN_ENGINE = ("tests/contract", "tests/component", "tests/integration")
"""What runs with its full counts on engines other than the system's, on which all does."""
SPLIT = ("tests/integration", "tests/integration/server")
"""Folders whose parts are pieces of their own, as they take long."""
ROUNDS = ("tests/conformance/test_rounds.py",)
LIMITS = {"counts": 3600, "critest": 2 * 3600}
"""Seconds for critest's rounds, or a piece of the counts, on one engine."""


def pieces(engine: MatrixEngine) -> list[str]:
    """The paths whose tests are an engine's counts: each test is in one of them (but the virtual machine's)."""
    found = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        piece = file.relative_to(ROOT)
        while str(piece.parent) not in (*SPLIT, "tests"):
            piece = piece.parent
        found.add(str(piece))
    found.discard("tests/vm")
    return sorted(p for p in found if engine.suite is None or p.startswith(WITH_AN_ENGINE))


def run(engine: MatrixEngine, part: str, arguments: Sequence[str], chosen: Collection[str] = ()) -> list[Outcome]:
    """One part on one engine, in pytest sessions and worlds of their own.  ``chosen``: these pieces of the counts."""
    soaking = {"CRISHIM_SOAK": "1"}
    if part == "critest":
        return [session(engine, f"soak-{engine.key}-critest", [*ROUNDS, *arguments], LIMITS[part], soaking)]
    outcomes = []
    for piece in pieces(engine):
        if not chosen or piece in chosen:
            commit = results.commit()
            name = f"soak-{engine.key}-{piece.replace('/', '-')}"
            outcome = session(engine, name, [piece, *arguments], LIMITS[part], soaking)
            outcomes.append(outcome)
            if not arguments:
                keep_counts(engine, piece, commit, outcome, cache.folder("results", f"{name}.xml"))
    return outcomes


def keep_counts(engine: MatrixEngine, piece: str, commit: str, outcome: Outcome, report: Path) -> None:
    """Keep what became of a piece of the counts, like a round of critest."""
    failed = failures(report) if report.exists() else []
    lines = [*failed, *filter(None, [outcome.fault])]
    states = {kind: outcome.counts[kind] for kind in KINDS if outcome.counts[kind]}
    name = f"{rounds.COUNTS} {piece}"
    rounds.save(rounds.Found(identify(engine), name, commit, [], round(outcome.seconds, 1), states, lines))


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
    parser.add_argument("--piece", action="append", help="only this one of the counts (may be repeated)")
    parser.add_argument("--list", action="store_true", help="print the pieces of the counts, and run nothing")
    parser.add_argument("pytest", nargs="*", help="more arguments for pytest")
    chosen = parser.parse_args(arguments)
    judged = [engine for engine in MATRIX if engine.key in (chosen.engine or keys)]
    if chosen.list:
        print("\n".join(piece for engine in judged for piece in pieces(engine)))
        return 0
    if unknown := set(chosen.piece or ()) - {piece for engine in judged for piece in pieces(engine)}:
        parser.error(f"no piece of the counts: {', '.join(sorted(unknown))}; --list prints them")
    not_run = []
    for what, make_ready in (("conformance", tools.make_ready), ("streaming client", streaming_client.make_ready)):
        try:
            make_ready()
        except tools.ToolsMissingError as error:
            not_run.append(f"{what}: not run ({error})")
    outcomes = []
    for engine in judged:
        for part in ("counts",) if chosen.piece else chosen.part or PARTS:
            print(f"== engine {engine.key}: {part}", flush=True)
            outcomes += run(engine, part, chosen.pytest, chosen.piece or ())
    soak_page.main()
    total = sum((outcome.counts for outcome in outcomes), Counter())
    print("\n".join(["", *map(str, outcomes), *not_run]))
    print(", ".join(f"{total[kind]} {kind}" for kind in KINDS))
    return 0 if all(outcome.good for outcome in outcomes) and not not_run else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
