from __future__ import annotations

from pathlib import Path

import pytest

from crishim.engine.twins import split_twins, twin_name
from crishim.front.twins import TwinConf, conf_path, marker_path, read_conf, usable_twins
from crishim.runtime.host import Host, detect


def test_a_twin_is_named_after_a_runtime_that_is_there() -> None:
    listed = ["runc", "crishim-runc", "crishim-gone", "alt", "crishim-crishim-gone"]
    runtimes, twins = split_twins(listed)
    assert runtimes == ("alt", "crishim-gone", "runc")
    assert twins == {"runc": "crishim-runc", "crishim-gone": "crishim-crishim-gone"}
    assert twin_name("runc") == "crishim-runc"


def test_the_conf_comes_back(tmp_path: Path) -> None:
    for conf in (TwinConf("/r", "/s"), TwinConf("/a b", "/é", ("--root", "/x y"))):
        conf_path(tmp_path / "p").write_text(conf.text())
        assert read_conf(tmp_path / "p") == conf
    for bad in (TwinConf("/r\n", "/s"), TwinConf("/r", ""), TwinConf("/r", "/s", ("",))):
        with pytest.raises(ValueError, match="cannot be told"):
            bad.text()
    for text in ("", "/r\n", "r\n/s\n"):
        conf_path(tmp_path / "p").write_text(text)
        with pytest.raises(ValueError, match="does not name"):
            read_conf(tmp_path / "p")


def test_only_twins_that_ask_here_are_used(tmp_path: Path) -> None:
    desk = tmp_path / "front.sock"
    conf_path(tmp_path / "mine").write_text(TwinConf("/r", str(desk)).text())
    conf_path(tmp_path / "others").write_text(TwinConf("/r", "/run/other/front.sock").text())
    conf_path(tmp_path / "broken").write_text("x")
    programs = {name: str(tmp_path / name) for name in ("mine", "others", "broken", "gone")}
    assert usable_twins(programs, desk) == {"mine": "crishim-mine"}
    assert usable_twins(programs, None) == {}
    host = detect(0, twins=programs, desk=desk)
    assert (host.twin_of("mine"), host.twin_of("others")) == ("crishim-mine", None)
    assert Host().twin_of("runc") is None


def test_the_marker_is_where_the_program_looks() -> None:
    assert marker_path(Path("/run/crishim/front.sock"), "4f") == Path("/run/crishim/front/exec/4f")
