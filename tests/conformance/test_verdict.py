"""The verdict itself is judged: on reports and lists made for it, without critest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import critest, debian, matrix, page, results, tools, verdict
from tests.conformance.critest import CritestError, Spec


def spec(name: str = "a spec", state: str = "passed") -> Spec:
    return Spec(name, state, 0.5, "" if state == "passed" else "because (file.go:1)")


def node(state: str, texts: list[str], **more: Any) -> dict[str, Any]:
    return {"LeafNodeType": "It", "LeafNodeText": texts[-1], "ContainerHierarchyTexts": texts[:-1]} | {
        "State": state,
        "RunTime": 1_500_000_000,
        **more,
    }


def report(*nodes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"SpecReports": list(nodes)}]


def test_a_report_is_read() -> None:
    failure = {
        "Message": "expected\n\n  <*status.Error | 0x1f>: this { s: { s: {} } }",
        "Location": {"FileName": "/go/pod.go", "LineNumber": 7},
    }
    read = critest.read_report(
        report(
            {"LeafNodeType": "BeforeSuite", "State": "passed"},
            node("passed", ["[k8s.io] Pod", "", "runs"]),
            node("failed", ["[k8s.io] Pod", "stops"], Failure=failure),
            node("timedout", ["[k8s.io] Pod", "hangs"]),
            node("skipped", ["[k8s.io] Pod", "benchmark about pods"]),
        ),
        benchmark=False,
    )
    assert read == [
        Spec("[k8s.io] Pod runs", "passed", 1.5, ""),
        Spec("[k8s.io] Pod stops", "failed", 1.5, "expected this (pod.go:7)"),
        Spec("[k8s.io] Pod hangs", "failed", 1.5, "timedout"),
    ]


def test_a_suite_that_did_not_begin_is_no_report() -> None:
    with pytest.raises(CritestError, match="BeforeSuite failed: no server"):
        critest.read_report(
            report({"LeafNodeType": "BeforeSuite", "State": "failed", "Failure": {"Message": "no server"}}),
            benchmark=False,
        )


@pytest.mark.parametrize(
    ("state", "reason", "wrong"),
    [
        ("passed", None, None),
        ("failed", "kernel lacks it", None),
        ("skipped", "kernel lacks it", None),
        ("passed", "kernel lacks it", "passes, but is listed (kernel lacks it): delete it from expected.toml"),
        ("failed", None, "failed: because (file.go:1)"),
        ("skipped", None, "skipped: because (file.go:1)"),
    ],
)
def test_nothing_fails_unlisted_and_nothing_passes_listed(state: str, reason: str | None, wrong: str | None) -> None:
    assert verdict.judge(spec(state=state), reason) == wrong


def test_a_group_counts_on_its_engines() -> None:
    expected = verdict.parse(
        {
            "engines": ["20", "28"],
            "group": [
                {"reason": "kernel lacks it", "specs": ["a"]},
                {"reason": "too old", "issue": "Later", "engines": ["20"], "specs": ["b"]},
            ],
        }
    )
    assert expected.reason("20", "a") == expected.reason("28", "a") == "kernel lacks it"
    assert expected.reason("20", "b") == "too old, issue 'Later'"
    assert expected.reason("28", "b") is None
    assert expected.judges("28")
    assert not expected.judges("29")
    assert verdict.strangers(expected, ["a", "c"]) == ["b"]


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ([{"specs": ["a"]}], "without reason"),
        ([{"reason": "r", "specs": ["a", "a"]}], "listed twice for 20: a"),
        ([{"reason": "r", "specs": ["a"]}, {"reason": "s", "specs": ["a"]}], "listed twice"),
        ([{"reason": "r", "specs": ["a"], "engine": ["20"]}], "unknown keys in a group: engine"),
        ([{"reason": "r", "specs": ["a"], "engines": ["21"]}], "unknown engines: 21"),
    ],
)
def test_a_list_that_contradicts_itself_is_refused(group: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        verdict.parse({"engines": ["20"], "group": group})


def test_the_list_in_the_tree_is_sound() -> None:
    plain = {"20", "26", "28", "28-containerd"}
    reasons = verdict.load().reasons
    assert set(reasons) == plain | {f"{key}{results.FRONT}" for key in plain}


def test_with_the_front_nothing_fails_but_nri_and_apparmor() -> None:
    reasons = verdict.load().reasons
    fronted = [set(specs) for key, specs in reasons.items() if key.endswith(results.FRONT)]
    assert all(listed == fronted[0] for listed in fronted)
    assert Counter(name.removeprefix("[k8s.io] ").split()[0] for name in fronted[0]) == {"NRI": 13, "AppArmor": 9}
    for key, specs in reasons.items():
        assert fronted[0] <= set(specs), f"{key}: what passes without the front passes with it"


def test_results_are_kept_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRISHIM_CACHE", str(tmp_path))
    identity = results.EngineIdentity("28", "28.5.2", "1.51")
    result = results.Result(identity, "1.37.0", "0123456789ab+", 7, 12.5, [spec(), spec("b", "skipped")])
    results.save(result)
    assert results.load_all() == [result]


def test_the_page_is_made_from_the_results() -> None:
    assert page.page(page.load_data(), verdict.load()) == page.PAGE.read_text(), (
        "stale: python -m tests.conformance.page"
    )


def test_junit_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "report.xml"
    file.write_text(
        "<testsuites><testsuite>"
        "<testcase name='a'/><testcase name='b'><failure/></testcase><testcase name='c'><error/></testcase>"
        "<testcase name='d'><skipped type='pytest.xfail'/></testcase>"
        "<testcase name='e'><skipped type='pytest.skip'/></testcase></testsuite></testsuites>"
    )
    assert matrix.count(file) == {"passed": 1, "failed": 2, "xfailed": 1, "skipped": 1}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sources.list.d/debian.sources", "Types: deb\n# a comment\nURIs: http://one.example/debian/\nSuites: x\n"),
        ("sources.list", "# deb http://zero.example/debian x\ndeb [arch=amd64] http://one.example/debian x main\n"),
        ("sources.list.d/a.list", "deb http://two.example/debian-security x\ndeb http://one.example/debian x main\n"),
    ],
)
def test_the_systems_mirror_is_found(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / name).write_text(text)
    assert debian.mirror(tmp_path) == "http://one.example/debian"


def test_without_a_mirror_debians_own_is_asked(tmp_path: Path) -> None:
    assert debian.mirror(tmp_path) == debian.DEFAULT_MIRROR


def test_a_tool_that_is_not_built_says_how_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRISHIM_CACHE", str(tmp_path))
    with pytest.raises(tools.ToolsMissingError, match=r"crictl is not built: run: .*tests\.conformance\.tools"):
        tools.crictl_path()


def test_without_go_the_tools_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRISHIM_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(tools.ToolsMissingError, match=r"no Go 1\.26"):
        tools.make_ready()
