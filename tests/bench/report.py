"""The figures as a file for machines and a table for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure

DOCS = Path(__file__).parents[2] / "docs"

_HEAD = """# What it costs

Made by `make bench`: medians of one run on the machine named below; compare only within one run, of which the call
`Version` and the raw engine's times show how fast its machine was. *Own share* is the time of a call less the time in
which it waited for the engine's answers, from the steps that each call records. *CPU* is processor time, user and
system, of a process and all that it starts (of the engine: dockerd, containerd, shims, runc; not the containers).
Calls that only read are made in rows of one kind, by three clients: grpc-go with the messages of k8s.io/cri-api, of
which kubelets and crictl are made and to which the musts apply; Python's gRPC client; one that costs next to nothing
itself. *A call that does nothing* goes to a server of the same library (grpc.aio) that answers with nothing: none made
with it is quicker on that machine, and what a read takes beyond it is crishim's. The server that is read from writes no
timeline (`--timeline`), as on a node; the own shares are measured with one. CreateContainer beside the raw engine's is
measured by grpc-go and on such a server, too; the raw call is made by aiohttp, on one kept connection, its body encoded
beforehand.
containerd, the measure of the field, serves the same requests with the same client, on CNI's reference plugins.
critest's figures are those of `critest -benchmark` with 30 containers, 30 pods and 20 images, one after the other, on a
CNI bridge. No test asserts a speed. `make bench-compare A.json B.json` prints the ratios of two results.

"""


def in_section(title: str, figures: Iterable[Figure]) -> list[Figure]:
    """The figures, in a part of the table of their own."""
    return [replace(figure, section=title) for figure in figures]


def write(
    machine: Mapping[str, object], figures: Iterable[Figure], skipped: Sequence[str] = (), folder: Path = DOCS
) -> None:
    """Write performance.json and performance.md into `folder`.  `skipped`: a line for each thing not measured."""
    figures = list(figures)
    result = {"machine": dict(machine), "figures": [asdict(figure) for figure in figures], "skipped": list(skipped)}
    (folder / "performance.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "performance.md").write_text(_HEAD + make_table(machine, figures, skipped))


def make_table(machine: Mapping[str, object], figures: Iterable[Figure], skipped: Sequence[str] = ()) -> str:
    """Markdown: a table for each section, in the order of their first figures."""
    packages = machine["packages"]
    assert isinstance(packages, dict)
    lines = [
        f"Linux {machine['kernel']}, {machine['processors']} processors, load {machine['load']} before the run, Python "
        f"{machine['python']}, engine {machine['engine']}, {', '.join(f'{k} {v}' for k, v in packages.items())}, "
        f"commit {machine['commit']}.",
    ]
    sections: dict[str, list[Figure]] = {}
    for figure in figures:
        sections.setdefault(figure.section, []).append(figure)
    for title, members in sections.items():
        lines += ["", *([f"## {title}", ""] if title else [])]
        lines += ["| | median | p90 | must | samples | |", "| --- | ---: | ---: | ---: | ---: | --- |", *rows(members)]
    if skipped:
        lines += ["", "Not measured:", "", *(f"- {line}" for line in skipped)]
    return "\n".join(lines) + "\n"


def rows(figures: Iterable[Figure]) -> list[str]:
    """A row of the table for each."""
    lines = []
    for f in figures:
        must = f"≤ {f.must:g} {f.unit}" if f.must else f"≥ {f.least:g} {f.unit}" if f.least else ""
        lines.append(f"| {f.name} | {f.median:g} {f.unit} | {f.p90:g} {f.unit} | {must} | {f.samples} | {f.note} |")
    return lines


def compare(a: Path, b: Path) -> str:
    """The ratios B/A of the medians and p90s of all figures that both have, and the names of the others.

    Raises OSError, ValueError when one is not a file of results.
    """
    one, two = load(a), load(b)
    known, others = ({f["name"]: f for f in result["figures"]} for result in (one, two))
    width = max((len(name) for name in (*known, *others)), default=0)
    lines = [f"{letter}: {_origin(path, r)}" for letter, path, r in (("A", a, one), ("B", b, two))]
    lines.append(f"{'':{width}}  {'A':>10}  {'B':>10}  {'B/A':>7}  {'p90 B/A':>9}")
    for name, figure in known.items():
        if name in others:
            other = others[name]
            columns = f"{figure['median']:10g}  {other['median']:10g}  {_ratio(figure, other, 'median'):>7}"
            lines.append(f"{name:{width}}  {columns}  {_ratio(figure, other, 'p90'):>9}  {figure['unit']}")
    for letter, mine, rest in (("A", known, others), ("B", others, known)):
        lines += [f"{name:{width}}  only in {letter}" for name in mine if name not in rest]
    return "\n".join(lines)


def load(file: Path) -> dict[str, Any]:
    """A file of results.  Raises OSError, ValueError."""
    result = json.loads(file.read_text())
    if not isinstance(result, dict) or not {"machine", "figures"} <= result.keys():
        raise ValueError(f"{file} holds no results of make bench")
    return result


def _origin(file: Path, result: Mapping[str, Any]) -> str:
    machine = result["machine"]
    facts = ", ".join(
        f"{key} {machine[key]}" for key in ("commit", "engine", "python", "kernel", "load") if key in machine
    )
    return f"{file} ({facts})"


def _ratio(one: Mapping[str, Any], two: Mapping[str, Any], what: str) -> str:
    return f"{two[what] / one[what]:.2f}" if one[what] else "-"
