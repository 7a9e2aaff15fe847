"""Marks for execs that are the front's business."""

from __future__ import annotations

from pathlib import Path

import pytest

from crishim.errors import FrontFailed
from crishim.front.markers import ExecMarkers
from crishim.front.twins import marker_path


def test_a_mark_lies_where_fronts_look_and_goes(tmp_path: Path) -> None:
    desk = tmp_path / "front.sock"
    markers = ExecMarkers(desk)
    markers.put("c1")
    markers.put("c1")
    assert marker_path(desk, "c1").exists()
    markers.drop("c1")
    markers.drop("c1")
    markers.drop("never")
    assert not marker_path(desk, "c1").exists()


def test_marks_outlive_the_server(tmp_path: Path) -> None:
    desk = tmp_path / "front.sock"
    before = ExecMarkers(desk)
    before.clear(lambda _: False)
    for container_id in ("lives", "gone"):
        before.put(container_id)
    after = ExecMarkers(desk)
    after.clear(lambda container_id: container_id == "lives")
    assert [marker_path(desk, name).exists() for name in ("lives", "gone")] == [True, False]
    after.drop("lives")
    assert not marker_path(desk, "lives").exists()


def test_one_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(FrontFailed):
        ExecMarkers(None).put("c1")
    (tmp_path / "front").write_text("in the way")
    with pytest.raises(FrontFailed, match="cannot make"):
        ExecMarkers(tmp_path / "front.sock").put("c1")
