"""What is done with figures; none is measured here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.bench import idle, judge, report
from tests.bench.figures import Figure, summarize
from tests.bench.report import in_section
from tests.env.cache import ROOT

MACHINE = {
    "kernel": "6.1",
    "processors": 2,
    "load": 0.4,
    "python": "3.11.2",
    "engine": "20.10.24",
    "packages": {"grpcio": "1.78"},
    "commit": "abc1234",
}


def write(folder: Path, *figures: Figure) -> Path:
    folder.mkdir()
    report.write(MACHINE, figures, folder=folder)
    return folder / "performance.json"


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, str]:
    a = write(
        tmp_path / "a",
        Figure("call", 2.0, 4.0, "ms", 9),
        Figure("growth", 0.0, 0.0, "MB", 1),
        Figure("old", 1, 1, "ms", 1),
    )
    b = write(
        tmp_path / "b",
        Figure("call", 1.0, 8.0, "ms", 9),
        Figure("growth", 1.0, 1.0, "MB", 1),
        Figure("new", 1, 1, "ms", 1),
    )
    return str(a), str(b)


def test_ratios(two: tuple[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--compare", *two], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[0] == f"A: {two[0]} (commit abc1234, engine 20.10.24, python 3.11.2, kernel 6.1, load 0.4)"
    assert [line.split() for line in lines[2:]] == [
        ["A", "B", "B/A", "p90", "B/A"],
        ["call", "2", "1", "0.50", "2.00", "ms"],
        ["growth", "0", "1", "-", "-", "MB"],
        ["old", "only", "in", "A"],
        ["new", "only", "in", "B"],
    ]


def test_what_holds_no_results_is_refused(two: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "wrong.json").write_text("[]")
    for wrong in (tmp_path / "wrong.json", tmp_path / "missing.json"):
        command = [sys.executable, "-m", "tests.bench", "--compare", two[0], str(wrong)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert str(wrong) in done.stderr


@pytest.mark.parametrize(
    ("words", "passed_on"),
    [
        (["a.json", "b.json"], "bench-compare a.json b.json"),
        (["./docs/there.json", "b.json"], "bench-compare docs/there.json b.json"),
        (["A=a.json", "B=b.json"], "bench-compare a.json b.json"),
        (["a.json"], "bench-compare a.json"),
    ],
)
def test_make_takes_files(words: list[str], passed_on: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/there.json").touch()
    script = tmp_path / "tests/env/run.sh"
    script.parent.mkdir(parents=True)
    script.write_text('#!/bin/sh\necho "$@"\n')
    script.chmod(0o755)
    command = ["make", "--no-print-directory", "bench-compare", *words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # of make test
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{passed_on}\n"


def test_two_files_are_wanted() -> None:
    done = subprocess.run(
        ["tests/env/run.sh", "bench-compare", "a"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "crishim: make bench-compare A.json B.json\n")


def test_the_page_has_a_table_for_each_section_and_names_what_is_missing() -> None:
    figures = [
        *in_section("One", [Figure("x", 1.5, 2.0, "ms", 3, 1.0)]),
        *in_section("Two", [Figure("y", 1, 2, "MB", 3)]),
    ]
    text = report.make_table(MACHINE, figures, ["critest: not run (no Go)"])
    head = "| | median | p90 | must | samples | |\n| --- | ---: | ---: | ---: | ---: | --- |\n"
    assert f"\n## One\n\n{head}| x | 1.5 ms | 2 ms | ≤ 1 ms | 3 |  |\n\n## Two\n\n{head}| y |" in text
    assert text.endswith("\nNot measured:\n\n- critest: not run (no Go)\n")


def test_where_more_is_better() -> None:
    figure = summarize("speed", [0.5, 0.9, 0.7, 0.6, 0.8], unit="×", least=0.65)
    assert (figure.median, figure.p90, figure.missed) == (0.7, 0.5, False)
    assert report.rows([figure]) == ["| speed | 0.7 × | 0.5 × | ≥ 0.65 × | 5 |  |"]
    assert summarize("speed", [0.6], unit="×", least=0.65).missed
    assert summarize("cost", [2.1], must=2.0).missed
    assert not summarize("cost", [2.1]).missed


def test_critests_figures_are_read() -> None:
    points = [{"operationsDurationsNs": [1_500_000, 2_000_000]}, {"operationsDurationsNs": [2_500_000, 2_000_000]}]
    written = {"pod_benchmark_data": {"operationsNames": ["CreatePod", "StatusPod"], "datapoints": points}}
    assert judge.figures(written) == [
        Figure("critest CreatePod", 2.0, 2.5, "ms", 2),
        Figure("critest StatusPod", 2.0, 2.0, "ms", 2),
    ]


def test_an_idle_kubelet_asks_at_its_rates() -> None:
    calls = list(idle.schedule(["a", "b"], 60.0))
    assert [at for at, *_ in calls] == sorted(at for at, *_ in calls)
    assert Counter(name for _, name, made in calls if not made) == Counter(idle.RATES)
    assert Counter(made for _, name, made in calls if name == "ContainerStatus") == {"a": 6, "b": 6}
