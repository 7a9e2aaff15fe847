"""The soak's own machinery: what runs beside what, what counts as unexpected, and what is kept.  Without critest."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.conformance import critest, rounds, soak, soak_page, tools, verdict
from tests.conformance.critest import Spec
from tests.conformance.engines import MatrixEngine
from tests.conformance.matrix import Outcome
from tests.conformance.results import EngineIdentity
from tests.env.cache import ROOT
from tests.streaming_client import build as streaming_client

ENGINE = EngineIdentity("28", "28.5.2", "1.51")


def test_what_cannot_run_twice_has_a_reason() -> None:
    names = [*rounds.FIXED_PORTS, "a serial spec", "a spec", "a spec that is a benchmark"]
    left_out = rounds.alone(names, ["a serial spec"])
    assert left_out == rounds.FIXED_PORTS | {
        "a serial spec": rounds.SERIAL,
        "a spec that is a benchmark": rounds.BENCHMARK,
    }


def test_a_fixed_port_of_a_spec_that_is_gone_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no specs of this critest: .*port mapping with host port"):
        rounds.alone(["a spec"], [])


def test_rounds_differ_in_seed_and_stay_within_it() -> None:
    seeds = [rounds.seed_of(2**31 - 2, number) for number in range(4)]
    assert seeds == [2**31 - 2, 2**31 - 1, 1, 2]


def test_the_same_list_judges() -> None:
    expected = verdict.parse({"engines": ["28"], "group": [{"reason": "no kernel for it", "specs": ["a", "b"]}]})
    specs = [
        Spec("a", "passed", 0, ""),
        Spec("b", "failed", 0, "x"),
        Spec("c", "skipped", 0, "y"),
        Spec("d", "passed", 0, ""),
    ]
    assert rounds.wrong(ENGINE, expected, specs) == [
        "a: passes, but is listed (no kernel for it): delete it from expected.toml",
        "c: skipped: y",
    ]
    assert rounds.wrong(EngineIdentity("29", "29.0.0", "1.52"), expected, specs) == []


def test_a_pass_without_some_specs_does_not_run_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "critest"
    program.write_text(
        '#!/bin/sh\nfor word; do echo "$word" >> words; case $word in --ginkgo.json-report=*) '
        "cp report ${word#*=};; esac; done\n"
    )
    program.chmod(0o755)
    texts = ["a (fixed) port", "benchmark of it", "plain"]
    nodes = [
        {"LeafNodeType": "It", "LeafNodeText": text, "ContainerHierarchyTexts": None, "State": "skipped", "RunTime": 0}
        for text in texts
    ]
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "report").write_text(json.dumps([{"SpecReports": nodes}]))
    monkeypatch.setattr(critest, "critest_path", lambda: program)
    found = critest.run("unix:///x", 7, tmp_path / "run", without=["a (fixed) port", "benchmark of it"])
    assert [spec.name for spec in found] == ["plain"]
    words = (tmp_path / "run" / "words").read_text().splitlines()
    assert words.count(r"--ginkgo.skip=a\ \(fixed\)\ port$") == 2


def test_serial_specs_are_told_by_their_label(monkeypatch: pytest.MonkeyPatch) -> None:
    def node(name: str, **labels: Any) -> dict[str, Any]:
        return {"LeafNodeType": "It", "LeafNodeText": name, "ContainerHierarchyTexts": None, "State": "passed"} | {
            "RunTime": 0,
            **labels,
        }

    nodes = [
        node("a", LeafNodeLabels=["Serial"]),
        node("b", LeafNodeLabels=None, ContainerHierarchyLabels=[None, ["Serial"]]),
        node("c", LeafNodeLabels=["Slow"], ContainerHierarchyLabels=[[]]),
    ]
    monkeypatch.setattr(critest, "_dry_run", lambda: [{"SpecReports": nodes}])
    assert critest.serial_names() == ["a", "b"]


def test_counts_are_kept_with_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRISHIM_CACHE", str(tmp_path))
    monkeypatch.setattr(soak, "identify", lambda engine: ENGINE)
    report = tmp_path / "report.xml"
    report.write_text(
        "<testsuites><testsuite><testcase classname='t' name='a'/>"
        "<testcase classname='t' name='b'><failure message='one&#10;two'/></testcase></testsuite></testsuites>"
    )
    outcome = Outcome("soak", Counter(passed=1, failed=1), 61.0, "ended after 1 s")
    for piece in ("tests/a", "tests/b/c.py"):
        soak.keep_counts(MatrixEngine("28", "sid"), piece, "0123456789ab", outcome, report)
    states, wrong = {"passed": 1, "failed": 1}, ["t.b: one", "ended after 1 s"]
    first = rounds.Found(ENGINE, "counts tests/a", "0123456789ab", [], 61.0, states, wrong)
    found = [first, dataclasses.replace(first, name="counts tests/b/c.py")]
    assert rounds.load_all() == found
    text = soak_page.page([*found, dataclasses.replace(first, name="counts tests/d", crishim="ba9876543210")])
    assert "| Docker 28.5.2 | counts (2) | 2 | 2 | 0 | 4 | `0123456789ab` |  | 2.0 |" in text
    assert "| Docker 28.5.2 | counts (1) | 1 | 1 | 0 | 2 | `ba9876543210` |  | 1.0 |" in text
    assert "- t.b: one\n" in text


def test_each_test_is_in_one_piece_of_the_counts() -> None:
    pieces = soak.pieces(MatrixEngine("system", None))
    for file in (ROOT / "tests").rglob("test_*.py"):
        path = str(file.relative_to(ROOT))
        holding = [piece for piece in pieces if path == piece or path.startswith(f"{piece}/")]
        assert len(holding) == (0 if path.startswith("tests/vm/") else 1), path
    others = soak.pieces(MatrixEngine("28", "sid"))
    assert set(others) < set(pieces)
    assert {piece.split("/")[1] for piece in others} == {"contract", "component", "integration"}


@pytest.mark.parametrize(
    ("module", "words"),
    [(tools, "conformance: not run (no Go)\n"), (streaming_client, "streaming client: not run (no Go)\n"), (None, "")],
)
def test_a_soak_without_a_program_says_so_and_fails(
    module: ModuleType | None, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise tools.ToolsMissingError("no Go")

    for each in (tools, streaming_client):
        monkeypatch.setattr(each, "make_ready", missing if each is module else lambda: None)
    monkeypatch.setattr(soak, "run", lambda engine, *_: [Outcome(engine.key, Counter(passed=1))])
    monkeypatch.setattr(soak_page, "main", lambda: None)
    assert soak.main(["--engine", "28", "--part", "counts"]) == bool(module)
    told = capsys.readouterr().out
    assert words in told
    assert told.count("not run") == bool(module)


def test_the_page_is_made_from_the_results() -> None:
    found = soak_page.load_data()
    assert found
    assert soak_page.page(found) == soak_page.PAGE.read_text(), "stale: python -m tests.conformance.soak_page"
