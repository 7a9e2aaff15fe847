"""The figures as a file for machines and a table for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from tests.bench.figures import Figure

DOCS = Path(__file__).parents[2] / "docs"

_HEAD = """# What it costs

Made by `make bench`: medians of one run on the machine named below. *Own share* is the time of a call less the time in
which it waited for the engine's answers, from the steps that each call records. No test asserts a speed.

"""


def write(machine: Mapping[str, object], figures: Iterable[Figure], folder: Path = DOCS) -> None:
    """Write performance.json and performance.md into `folder`."""
    figures = list(figures)
    result = {"machine": dict(machine), "figures": [asdict(figure) for figure in figures]}
    (folder / "performance.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "performance.md").write_text(_HEAD + make_table(machine, figures))


def make_table(machine: Mapping[str, object], figures: Iterable[Figure]) -> str:
    """Markdown."""
    packages = machine["packages"]
    assert isinstance(packages, dict)
    lines = [
        f"Linux {machine['kernel']}, {machine['processors']} processors, Python {machine['python']}, engine "
        f"{machine['engine']}, {', '.join(f'{k} {v}' for k, v in packages.items())}, commit {machine['commit']}.",
        "",
        "| | median | p90 | must | samples | |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for f in figures:
        must = f"≤ {f.must:g} {f.unit}" if f.must else ""
        lines.append(f"| {f.name} | {f.median:g} {f.unit} | {f.p90:g} {f.unit} | {must} | {f.samples} | {f.note} |")
    return "\n".join(lines) + "\n"


def compare(a: Path, b: Path) -> str:
    """Ratios b/a of the figures that both have."""
    one, two = ({f["name"]: f for f in json.loads(path.read_text())["figures"]} for path in (a, b))
    width = max((len(name) for name in one), default=0)
    lines = []
    for name, figure in one.items():
        if name in two and figure["median"]:
            ratio = two[name]["median"] / figure["median"]
            lines.append(f"{name:{width}}  {figure['median']:10g}  {two[name]['median']:10g}  {ratio:6.2f} ×")
    return "\n".join(lines)
