"""``make matrix``: contract checks, crictl and critest on each engine, in a pytest session and a world of its own.

``python -m tests.conformance.matrix [--engine KEY ...] [--front] [-- PYTEST-ARGUMENT ...]``, as root, outside a test
world: tools and engines are made ready first, which may download.  On one engine critest then judges once more, with
the front of the runtime.  Goes on after a session that failed; ends on one line with the sums.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.conformance import cache, debian, engines, tools
from tests.conformance.engines import MATRIX, MatrixEngine
from tests.conformance.results import FRONT
from tests.env.cache import ROOT

JUDGES = ("tests/contract/test_engine.py", "tests/conformance")
"""What decides on an engine: its contract; the walk of crictl, and critest."""
CRITEST = "tests/conformance/test_critest.py"
LIMIT = 1500
"""Seconds for one engine's session."""
KINDS = ("passed", "failed", "skipped", "xfailed")


@dataclass
class Outcome:
    """What became of an engine's session."""

    key: str
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    fault: str = ""
    """Why the session did not run to its end; empty when it did."""

    @property
    def good(self) -> bool:
        """Whether nothing failed and all was run."""
        return not self.fault and not self.counts["failed"]

    def __str__(self) -> str:
        words = ", ".join(f"{self.counts[kind]} {kind}" for kind in KINDS)
        return f"engine {self.key}: {words} in {self.seconds:.0f} s" + (f"; {self.fault}" if self.fault else "")


def judge(engine: MatrixEngine, arguments: Sequence[str] = ()) -> Outcome:
    """Run an engine's session.  ``arguments``: more of them for pytest."""
    return session(engine, engine.key, [*JUDGES, *arguments], LIMIT)


def judge_front(engine: MatrixEngine, arguments: Sequence[str] = ()) -> Outcome:
    """Run critest on an engine whose runtime has the front."""
    # The walk over the embedded network is about the network, and was made without it.
    only = ["--deselect", f"{CRITEST}::test_networking_on_the_embedded_network"]
    return session(engine, f"{engine.key}{FRONT}", [CRITEST, *only, *arguments], LIMIT, {"CRISHIM_TEST_FRONT": "1"})


def session(
    engine: MatrixEngine, name: str, arguments: Sequence[str], limit: float, more: Mapping[str, str] | None = None
) -> Outcome:
    """Run pytest with ``arguments`` on an engine, for ``limit`` seconds at most, with ``more`` in its environment.

    ``name``: of the outcome, and of its JUnit report in the results folder.
    """
    outcome = Outcome(name)
    try:
        engines.make_ready(engine)
    except debian.DebianError as error:
        outcome.fault = f"not run: {error}"
        outcome.counts["failed"] += 1
        return outcome
    report = cache.folder("results", f"{name}.xml")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    environment = os.environ | ({"CRISHIM_TEST_ENGINE": str(engine.folder)} if engine.folder else {}) | dict(more or {})
    command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *arguments]
    began = time.monotonic()
    try:
        status = subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=limit).returncode
    except subprocess.TimeoutExpired:
        outcome.fault, status = f"ended after {limit:g} s", 1
    outcome.seconds = time.monotonic() - began
    outcome.counts = count(report) if report.exists() else Counter()
    if status != 0 and not outcome.counts["failed"]:
        outcome.counts["failed"] += 1
        outcome.fault = outcome.fault or f"pytest ended with status {status}"
    return outcome


def count(report: Path) -> Counter[str]:
    """The sums of a JUnit report of pytest's: an error of a fixture counts as failed."""
    counts: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            counts["failed"] += 1
        elif skipped is not None:
            counts["xfailed" if skipped.get("type") == "pytest.xfail" else "skipped"] += 1
        else:
            counts["passed"] += 1
    return counts


def main(arguments: Sequence[str]) -> int:
    """Entry point.  Exit status: 0 when every session ran and nothing failed in it."""
    keys = [engine.key for engine in MATRIX]
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.matrix", description=__doc__)
    parser.add_argument("--engine", action="append", choices=keys, help="only this one (may be repeated)")
    parser.add_argument("--front", action="store_true", help="critest with the front of the runtime, and nothing else")
    parser.add_argument("pytest", nargs="*", help="more arguments for pytest")
    chosen = parser.parse_args(arguments)
    not_run = ""
    try:
        tools.make_ready()
    except tools.ToolsMissingError as error:
        not_run = f"conformance: not run ({error})"
    outcomes = []
    for engine in MATRIX:
        if chosen.engine is not None and engine.key not in chosen.engine:
            continue
        if not chosen.front:
            print(f"== engine {engine.key}", flush=True)
            outcomes.append(judge(engine, chosen.pytest))
        if chosen.front or (engine.front and not chosen.pytest):
            print(f"== engine {engine.key}, with the front", flush=True)
            outcomes.append(judge_front(engine, chosen.pytest))
    total = sum((outcome.counts for outcome in outcomes), Counter())
    print("\n".join(["", *map(str, outcomes), *filter(None, [not_run])]))
    print(", ".join(f"{total[kind]} {kind}" for kind in KINDS))
    good = all(outcome.good for outcome in outcomes) and not (not_run and os.environ.get("CI") == "true")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
