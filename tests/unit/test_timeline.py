from __future__ import annotations

import json
from pathlib import Path

from crishim.aiokit.steps import Call, Step
from crishim.timeline import Timeline, make_entry


def call() -> Call:
    steps = [Step("create", 2_000_000, 5_000_000, engine=True), Step("never ended", 6_000_000)]
    return Call("RunPodSandbox", 1_000_000, 11_000_000, "INTERNAL", steps)


def test_an_entry_tells_the_call_and_its_steps_in_milliseconds() -> None:
    assert make_entry(call(), now=1_000_000_000) == {
        "start_ns": 990_000_000,
        "verb": "RunPodSandbox",
        "outcome": "INTERNAL",
        "ms": 10.0,
        "own_ms": 7.0,
        "steps": [
            {"name": "create", "at_ms": 1.0, "ms": 3.0, "engine": True},
            {"name": "never ended", "at_ms": 5.0, "ms": 5.0, "engine": False},
        ],
    }


def test_lines_are_appended_at_once(tmp_path: Path) -> None:
    path = tmp_path / "timeline.jsonl"
    for _ in range(2):
        with Timeline(path) as timeline:
            timeline(call())
            timeline(Call("Version", 0, 1))
            last = json.loads(path.read_text().splitlines()[-1])
            assert (last["verb"], last["outcome"]) == ("Version", "OK")
    assert len(path.read_text().splitlines()) == 4
