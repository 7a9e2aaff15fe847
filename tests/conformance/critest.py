"""Running critest and reading its report.

A run is one pass over the validation specs and one over the benchmark specs (with small counts: here they are judged,
not measured), both in an order that the seed decides.  Rule for the report: ginkgo's types.Report as JSON.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.tools import critest_path

VALIDATION_SPECS = 137
BENCHMARK_SPECS = 5
LIMIT = 1500
"""Seconds for a pass; critest then ends the spec under way as failed, and the rest as skipped."""
SERIAL = "Serial"
_ADDRESS = re.compile(r"<[^<>]* \| 0x[0-9a-f]+>: ")
"""How gomega names a value: by a type and an address that no two runs share."""
_COUNTS = "containersNumber: 3\npodsNumber: 3\nimagesNumber: 2\npodContainerStartBenchmarkTimeoutSeconds: 60\n"
"""The benchmarks' counts; without them they skip.  One of them asserts a speed, five seconds for a pod, which a busy
machine does not keep: a minute."""


class CritestError(Exception):
    """critest did not judge: it reported no specs, or ended before them.  The message ends on its last words."""


@dataclass(frozen=True)
class Spec:
    """What became of a spec."""

    name: str
    """All its texts, as ginkgo prints them."""
    state: str
    """``passed``, ``failed`` or ``skipped``."""
    seconds: float
    message: str
    """Why it failed or skipped; empty for a passed one."""


def fresh_seed() -> int:
    """A seed for one run's order of specs."""
    return random.SystemRandom().randrange(1, 2**31)


def spec_names() -> list[str]:
    """All specs of the critest that is built, in no order.  Raises ToolsMissingError, CritestError."""
    return sorted(spec.name for spec in _specs(_dry_run()))


def serial_names() -> list[str]:
    """The specs that critest itself marks as not to be run beside others.  Raises as ``spec_names`` does.

    Rule: ginkgo's decorator ``Serial``, which its reports show as a label.
    """
    return sorted(_spec(node).name for node in _nodes(_dry_run()) if SERIAL in _labels(node))


def _dry_run() -> Any:
    """The report of a critest that runs nothing."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.json")
        command = [str(critest_path()), "--ginkgo.dry-run", f"--ginkgo.json-report={report}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=place)
        try:
            found = json.loads(report.read_text())
            _specs(found)
        except (OSError, ValueError, KeyError):
            raise CritestError(f"critest names no specs: {(done.stdout + done.stderr)[-500:]}") from None
        return found


def run(endpoint: str, seed: int, place: Path, flags: Sequence[str] = (), without: Collection[str] = ()) -> list[Spec]:
    """Judge the server at ``endpoint`` (``unix://``) by all specs but those in ``without``.

    ``place``: a folder for reports (``*.json``) and critest's words (``*.log``).  ``flags``: more flags for critest.
    Raises ToolsMissingError, CritestError.
    """
    place.mkdir(parents=True, exist_ok=True)
    counts = place / "counts.yaml"
    counts.write_text(_COUNTS)
    more = [*flags, *(f"--ginkgo.skip={re.escape(name)}$" for name in without)]
    found = _pass(endpoint, seed, place / "validation", more)
    found += _pass(endpoint, seed, place / "benchmark", ["-benchmark", f"-benchmarking-params-file={counts}", *more])
    return [spec for spec in found if spec.name not in without]


def run_those(endpoint: str, seed: int, place: Path, named: str) -> list[Spec]:
    """Judge the server by the validation specs with `named` in their names.  Raises ToolsMissingError, CritestError."""
    place.mkdir(parents=True, exist_ok=True)
    found = _pass(endpoint, seed, place / "validation", [f"--ginkgo.focus={re.escape(named)}"])
    return [spec for spec in found if named in spec.name]


def measure(endpoint: str, place: Path, params: str) -> Mapping[str, Any]:
    """Run the benchmark specs for their figures: each file that critest wrote, by its stem.

    ``params``: text of the file for ``-benchmarking-params-file``.  Raises ToolsMissingError, CritestError, also when a
    spec did not pass: its figures would be those of something else.
    """
    figures = place / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    file = place / "params.yaml"
    file.write_text(params)
    extra = ["-benchmark", f"-benchmarking-params-file={file}", f"-benchmarking-output-dir={figures}"]
    for spec in _pass(endpoint, fresh_seed(), place / "benchmark", extra):
        if spec.state != "passed":
            raise CritestError(f"{spec.name} {spec.state}: {spec.message}")
    return {written.stem: json.loads(written.read_text()) for written in sorted(figures.glob("*.json"))}


def _pass(endpoint: str, seed: int, stem: Path, flags: Sequence[str]) -> list[Spec]:
    """One run of the program; the specs that it was asked to run."""
    report, log = stem.with_suffix(".json"), stem.with_suffix(".log")
    command = [
        str(critest_path()),
        f"-runtime-endpoint={endpoint}",
        f"-image-endpoint={endpoint}",
        f"--ginkgo.seed={seed}",
        f"--ginkgo.timeout={LIMIT}s",
        f"--ginkgo.json-report={report}",
        "--ginkgo.no-color",
        *flags,
    ]
    with log.open("wb") as words:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, cwd=stem.parent, check=False)
    try:
        return read_report(json.loads(report.read_text()), benchmark="-benchmark" in flags)
    except (OSError, ValueError, KeyError) as error:
        last = " | ".join(log.read_text(errors="replace").splitlines()[-5:])
        raise CritestError(f"critest gave no report ({error}): {last}") from None


def read_report(report: Any, *, benchmark: bool) -> list[Spec]:
    """The benchmark specs of a report, or all others.  Raises CritestError when the suite's own set-up failed."""
    for suite in report:
        for node in suite["SpecReports"] or ():
            if node["LeafNodeType"] != "It" and node["State"] not in {"passed", "skipped"}:
                raise CritestError(f"{node['LeafNodeType']} {node['State']}: {_message(node)}")
    return [spec for spec in _specs(report) if ("benchmark" in spec.name) == benchmark]


def _specs(report: Any) -> list[Spec]:
    return [_spec(node) for node in _nodes(report)]


def _nodes(report: Any) -> list[Mapping[str, Any]]:
    return [node for suite in report for node in suite["SpecReports"] or () if node["LeafNodeType"] == "It"]


def _labels(node: Mapping[str, Any]) -> set[str]:
    around = node.get("ContainerHierarchyLabels") or ()
    return {*(node.get("LeafNodeLabels") or ()), *(label for labels in around for label in labels or ())}


def _spec(node: Mapping[str, Any]) -> Spec:
    name = " ".join(filter(None, [*(node["ContainerHierarchyTexts"] or ()), node["LeafNodeText"]]))
    state = node["State"] if node["State"] in {"passed", "skipped"} else "failed"  # also panicked, timedout, pending
    return Spec(name, state, node["RunTime"] / 1e9, "" if state == "passed" else _message(node))


def _message(node: Mapping[str, Any]) -> str:
    """Why, and where in the specs' sources."""
    failure = node.get("Failure") or {}
    words = failure.get("Message") or failure.get("ForwardedPanic") or node["State"]
    location = failure.get("Location") or {}
    where = f" ({Path(location['FileName']).name}:{location['LineNumber']})" if location.get("FileName") else ""
    words = " ".join(str(words).split()).partition(" { s: {")[0]  # gRPC's status as Go prints its inside
    return _ADDRESS.sub("", words)[:600] + where
