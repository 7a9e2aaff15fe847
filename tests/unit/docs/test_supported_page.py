"""docs/supported.md is what the feature table and the results say."""

from __future__ import annotations

import json
from pathlib import Path

from crishim.docs.supported_page import RESULTS, judged_engines, page
from crishim.engine.features import BELOW, FIRST_API, Feature

ROOT = Path(__file__).parents[3]


def test_committed_page_is_fresh() -> None:
    committed = (ROOT / "docs" / "supported.md").read_text(encoding="utf-8")
    assert committed == page(judged_engines(json.loads(RESULTS.read_text(encoding="utf-8")))), (
        "run `python -m crishim.docs.supported_page > docs/supported.md`"
    )


def test_every_feature_says_where_it_begins_and_what_happens_below() -> None:
    assert set(FIRST_API) == set(BELOW) == set(Feature)


def test_a_cell_follows_the_engines_api() -> None:
    def result(key: str, version: str, api: str) -> dict[str, object]:
        return {
            "engine": {"key": key, "version": version, "api_version": api},
            "specs": [{"state": "passed"}, {"state": "failed"}],
        }

    results = [result("20", "20.10.24", "1.41"), result("28-containerd", "28.5.2", "1.51")]
    results.append(result("20-front", "20.10.24", "1.41"))
    shown = page(judged_engines(results))
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in shown.splitlines() if line[:1] == "|"]
    assert rows[0] == ["Docker Engine", "20.10.24", "28.5.2, containerd image store"]
    assert rows[2] == ["API", "1.41", "1.51"]
    assert rows[3][1:] == ["1 of 2", "1 of 2"]
    assert rows[4] == ["with the front of the runtime", "1 of 2", "not run"]
    cells = {row[0]: row[1:] for row in rows}
    assert cells[Feature.IMAGE_MOUNTS.value] == ["no", "yes"]
    assert cells[Feature.CDI_DEVICES.value] == ["no", "where switched on"]
