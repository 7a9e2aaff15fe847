"""Runtimes are put into daemon.json and taken out, and nothing else changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crishim.front.install.daemon_json import (
    NotEditable,
    listed,
    with_runtimes,
    without_empty,
    without_runtimes,
)

TWO = {"crishim-runc": "/x/crishim-runc", "crishim-alt": '/x/a "b"'}


def entries(paths: dict[str, str]) -> dict[str, Any]:
    return {name: {"path": path} for name, path in paths.items()}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "runtimes": {\n    "r": {"path": "/r"}\n  }\n}\n'),
        ("{}", '{\n  "runtimes": {\n    "r": {"path": "/r"}\n  }\n}'),
        ('{"a": 1}', '{"a": 1,"runtimes": {\n  "r": {"path": "/r"}\n}}'),
        (
            '{\n\t"a": [1,  2.50],\n\t"b":{}\n}\n',
            '{\n\t"a": [1,  2.50],\n\t"b":{},\n\t"runtimes": {\n\t\t"r": {"path": "/r"}\n\t}\n}\n',
        ),
        (
            '{\n    "runtimes": {\n        "kata": {"path": "k"}\n    },\n    "z": "é"\n}\n',
            '{\n    "runtimes": {\n        "kata": {"path": "k"},\n        "r": {"path": "/r"}\n    },\n'
            '    "z": "é"\n}\n',
        ),
        ('{ "runtimes": { "a": {}, "b": {} } }', '{ "runtimes": { "a": {}, "b": {}, "r": {"path": "/r"} } }'),
        ('{\n  "runtimes": {}\n}', '{\n  "runtimes": {\n    "r": {"path": "/r"}\n  }\n}'),
    ],
)
def test_a_runtime_stands_as_the_others_do(before: str, after: str) -> None:
    assert with_runtimes(before, {"r": "/r"}) == after
    assert listed(after)["r"] == {"path": "/r"}


def test_none_is_no_change() -> None:
    assert with_runtimes("{ }", {}) == "{ }"
    assert without_runtimes("{ }", ["x"]) == "{ }"
    assert without_runtimes("", ["x"]) == ""
    assert without_empty("") == ""
    assert listed(" \n") == {}


def test_the_key_stays_until_the_engine_took_note() -> None:
    text = with_runtimes('{\n  "a": 1\n}\n', {"r": "/r"})
    assert without_runtimes(text, ["r"]) == '{\n  "a": 1,\n  "runtimes": {}\n}\n'
    assert without_empty(without_runtimes(text, ["r"])) == '{\n  "a": 1\n}\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "no JSON object"),
        ("{", "Expecting"),
        ('{"a": 1,}', "Expecting"),
        ("{'a': 1}", "Expecting"),
        ('{"a": 1} {}', "something follows"),
        ('{"a" 1}', "Expecting"),
        ('{"a": // 1\n}', "Expecting"),
        ('{"runtimes": []}', "runtimes is no JSON object"),
        ('{"runtimes": {}, "runtimes": {}}', "runtimes is there twice"),
        ('{"runtimes": {"r": {}}}', "a runtime r already"),
    ],
)
def test_what_cannot_be_edited_is_told(text: str, words: str) -> None:
    with pytest.raises(NotEditable, match=words):
        with_runtimes(text, {"r": "/r"})


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(
    settings=st.dictionaries(names.filter(lambda name: name != "runtimes"), values, max_size=4),
    runtimes=st.none() | st.dictionaries(names, values, max_size=3),
    indent=st.sampled_from([None, 1, 4, "\t"]),
    at=st.integers(0, 4),
)
def test_whatever_stands_there_stays(
    settings: dict[str, Any], runtimes: dict[str, Any] | None, indent: int | str | None, at: int
) -> None:
    before: dict[str, Any] = dict(settings)
    if runtimes is not None:
        pairs = list(settings.items())
        before = dict([*pairs[:at], ("runtimes", runtimes), *pairs[at:]])
    text = json.dumps(before, indent=indent, ensure_ascii=False)
    changed = with_runtimes(text, TWO)
    assert json.loads(changed) == before | {"runtimes": (runtimes or {}) | entries(TWO)}
    assert list(json.loads(changed)) == list(before | {"runtimes": 0})
    back = without_runtimes(changed, list(TWO))
    assert json.loads(back) == before | {"runtimes": runtimes or {}}
    if runtimes:
        assert back == text, "to the letter"
    else:
        assert json.loads(without_empty(back)) == {name: value for name, value in before.items() if name != "runtimes"}
