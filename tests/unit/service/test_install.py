from __future__ import annotations

import configparser
import sys
from pathlib import Path

import pytest

from crishim.config import Settings, load
from crishim.service.install import CONFIG, UNIT, install, own_command, quote


def unit(root: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((root / UNIT).read_text())
    return parser


def test_the_unit_starts_this_command_and_survives_a_restart_of_docker(tmp_path: Path) -> None:
    assert install(tmp_path, "/opt/x/bin/crishim") == [tmp_path / UNIT, tmp_path / CONFIG]
    written = unit(tmp_path)
    assert written["Service"]["ExecStart"] == "/opt/x/bin/crishim serve"
    assert written["Service"]["Type"] == "notify"
    assert written["Service"]["RuntimeDirectory"] == written["Service"]["StateDirectory"] == "crishim"
    assert written["Service"]["RuntimeDirectoryPreserve"] == "yes", "a log writer's lock lies there"
    assert "docker.service" in written["Unit"]["After"]
    assert "docker.service" in written["Unit"]["Wants"]
    assert not {"Requires", "BindsTo", "PartOf"} & set(written["Unit"])
    limit = float(written["Service"]["TimeoutStopSec"])
    assert limit > Settings().drain_limit
    assert (tmp_path / UNIT).stat().st_mode & 0o777 == 0o644
    assert sorted(p.name for p in (tmp_path / UNIT).parent.iterdir()) == ["crishim.service"]


def test_the_first_configuration_is_for_a_node_of_a_cluster(tmp_path: Path) -> None:
    install(tmp_path, "crishim")
    assert load({}, {}, tmp_path / CONFIG).settings == Settings(network="cni")
    lines = (tmp_path / CONFIG).read_text().splitlines()
    (tmp_path / CONFIG).write_text("\n".join(line for line in lines if line != 'network = "cni"'))
    assert load({}, {}, tmp_path / CONFIG).settings == Settings()


def test_a_second_time_renews_the_unit_and_keeps_the_configuration(tmp_path: Path) -> None:
    install(tmp_path, "old")
    (tmp_path / CONFIG).write_text('network = "none"\n')
    assert install(tmp_path, "/new") == [tmp_path / UNIT]
    assert unit(tmp_path)["Service"]["ExecStart"] == "/new serve"
    assert (tmp_path / CONFIG).read_text() == 'network = "none"\n'


def test_the_command_is_the_one_that_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "bin dir" / "crishim"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(script), "install-service"])
    assert own_command() == f'"{script}"'
    monkeypatch.setattr(sys, "argv", ["/somewhere/crishim/__main__.py", "install-service"])
    assert own_command() == f"{quote(sys.executable)} -m crishim"


def test_special_characters_of_units_are_escaped() -> None:
    assert quote("/opt/100%/$x") == "/opt/100%%/$$x"
    assert quote('/opt/a "b"') == '"/opt/a \\"b\\""'
