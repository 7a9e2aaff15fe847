"""docs/conformance.md: how many of critest's specs pass, beside what other runtimes reach.

``python -m tests.conformance.page`` takes the results that the last runs left in the cache into
``docs/conformance.json`` (an engine without one there keeps its former) and writes the page; a test compares the two.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conformance import results, verdict
from tests.conformance.critest import Spec
from tests.conformance.results import FRONT, VIRTUAL, Result
from tests.conformance.verdict import Expected
from tests.env.cache import ROOT

DATA = ROOT / "docs" / "conformance.json"
PAGE = ROOT / "docs" / "conformance.md"

HEAD = """\
<!-- Made by `python -m tests.conformance.page` from docs/conformance.json and expected.toml; do not edit. -->
# Conformance

Kubernetes judges container runtimes by [critest](https://github.com/kubernetes-sigs/cri-tools): {critest} has 142
specs, 137 that validate and 5 that benchmark. `make matrix` runs it against crishim on several generations of Docker
Engine, in a random order, without retries and without a network. A spec that critest skips because of what the server
answers is counted as skipped here and needs a reason just as a failed one does; what is neither passed nor listed with
a reason in `tests/conformance/expected.toml` fails the build, and so does a listed spec that passes.

## crishim

| engine | API | passed | failed | skipped | of | commit | seed |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""

RIVALS = """\

## Others, on the same machine

The 137 validation specs only.

| | passed | failed | skipped |
| --- | --- | --- | --- |
| containerd 2.4.2, with `-nri-socket` | 125 | 0 | 12 |
| containerd 2.4.2 | 114 | 0 | 23 |
| cri-dockerd 0.4.3 on Docker 20.10 and 26.1 | 82 | 19 | 36 |
| cri-dockerd 0.4.3 on Docker 28.5 | 81 | 20 | 36 |
"""


def page(found: Sequence[Result], expected: Expected) -> str:
    """The whole page in Markdown."""
    versions = sorted({result.critest for result in found})
    parts = [HEAD.format(critest=f"version {', '.join(versions)}" if versions else "it")]
    on_host = [result for result in found if not result.engine.key.startswith(VIRTUAL)]
    for result in on_host:
        states = " | ".join(str(len(result.of_state(state))) for state in ("passed", "failed", "skipped"))
        parts.append(
            f"| {_named(result)} | {result.engine.api_version} | {states} | {len(result.specs)} "
            f"| `{result.crishim}` | {result.seed} |\n"
        )
    parts += [_virtual(result) for result in found if result not in on_host]
    parts.append(RIVALS)
    parts.append("\n## What does not pass, and why\n")
    parts += _reasons(on_host, expected)
    return "".join(parts)


def _named(result: Result) -> str:
    plain = result.engine.key.removesuffix(FRONT)
    words = [f"Docker {result.engine.version}"]
    words += ["containerd image store"] * plain.endswith("-containerd")
    return ", ".join([*words, *["with the front of the runtime"] * (plain != result.engine.key)])


def _virtual(result: Result) -> str:
    """What was judged in the virtual machine: only what the host cannot judge."""
    kind = ", ".join(sorted({spec.name.removeprefix("[k8s.io] ").partition(" ")[0] for spec in result.specs}))
    return (
        f"\nIn the virtual machine of `make vm` ({result.engine.key.removeprefix(VIRTUAL)}, Docker "
        f"{result.engine.version}, commit `{result.crishim}`) {len(result.of_state('passed'))} of the "
        f"{len(result.specs)} specs of {kind} pass.\n"
    )


def _reasons(found: Sequence[Result], expected: Expected) -> list[str]:
    """A paragraph for each reason, with its specs and the engines on which they do not pass."""
    by_reason: dict[str, dict[str, list[str]]] = {}
    for result in found:
        for spec in (*result.of_state("failed"), *result.of_state("skipped")):
            reason = expected.reason(result.engine.key, spec.name) or "Not explained yet"
            by_reason.setdefault(reason, {}).setdefault(spec.name, []).append(result.engine.key)
    parts = [] if by_reason else ["\nNothing.\n"]
    everywhere = [result.engine.key for result in found]
    for reason, specs in sorted(by_reason.items()):
        parts.append(f"\n### {reason[0].upper()}{reason[1:]}\n\n")
        for name, engines in sorted(specs.items()):
            where = "" if engines == everywhere else f" (engine {', '.join(engines)})"
            parts.append(f"- {name.removeprefix('[k8s.io] ')}{where}\n")
    return parts


def load_data(file: Path = DATA) -> list[Result]:
    """The committed results."""
    return [results.decode(entry) for entry in json.loads(file.read_text())] if file.exists() else []


def _lean(result: Result) -> Result:
    """Without what differs from run to run and is of no use in the tree."""
    return dataclasses.replace(
        result,
        specs=[Spec(spec.name, spec.state, 0.0, "") for spec in sorted(result.specs, key=lambda spec: spec.name)],
    )


def main() -> int:
    """Write both files."""
    known = {result.engine.key: result for result in load_data()}
    known |= {result.engine.key: _lean(result) for result in results.load_all()}
    found = [known[key] for key in sorted(known)]
    DATA.write_text(json.dumps([results.encode(result) for result in found], indent=0) + "\n")
    PAGE.write_text(page(found, verdict.load()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
