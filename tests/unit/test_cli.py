from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from crishim import __version__
from crishim.cli import FAILED, MISCONFIGURED, main
from crishim.config import Settings
from crishim.service.install import UNIT


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("CRISHIM_")]:
        monkeypatch.delenv(name)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"crishim {__version__}\n"


def test_print_config_prints_what_is_in_force(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRISHIM_NETWORK", "none")
    file = tmp_path / "c.toml"
    file.write_text("kill_wait = 3")
    assert main(["serve", "--print-config", "--config", str(file), "--engine=simulated:"]) == 0
    printed = tomllib.loads(capsys.readouterr().out)
    assert (printed["network"], printed["kill_wait"], printed["engine"]) == ("none", 3.0, "simulated:")


def test_all_that_is_wrong_is_told_at_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRISHIM_NETWORK", "calico")
    assert main(["serve", "--enigne=x", "--log-level", "loud", "--config", "/nowhere.toml"]) == MISCONFIGURED
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(" is not allowed")[0] for line in told] == [
        "crishim: --enigne=x: there is no such flag; `crishim serve --help` lists them",
        "crishim: file /nowhere.toml: does not exist",
        "crishim: environment CRISHIM_NETWORK: 'calico'",
        "crishim: flag --log-level: 'loud'",
    ]


@pytest.mark.parametrize("arguments", [[], ["sevre"], ["version", "--x"], ["serve", "--listen"]])
def test_a_wrong_command_line_ends_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == MISCONFIGURED


def test_help_explains_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    for key in Settings.model_fields:
        assert f"--{key.replace('_', '-')} " in out


def test_install_service_tells_what_it_wrote_and_what_comes_next(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["install-service", "--root", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"wrote {tmp_path / UNIT}" in out
    assert "systemctl enable --now crishim" in out


def test_install_service_tells_what_it_cannot_write(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "etc").write_text("a file")
    assert main(["install-service", "--root", str(tmp_path)]) == FAILED
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["check", "install-runtime", "uninstall-runtime"])
def test_the_commands_of_the_front_read_the_servers_settings(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--engine=simulated:"]) == MISCONFIGURED
    assert capsys.readouterr().err == "crishim: the simulated engine has no runtimes\n"
    assert main([verb, "--run-dir=here"]) == MISCONFIGURED
    assert "crishim: flag --run-dir: 'here'" in capsys.readouterr().err
    assert main([verb, "--engine=unix:///nowhere/docker.sock", "--config=/nowhere.toml"]) == MISCONFIGURED
    with pytest.raises(SystemExit) as ended:
        main([verb, "--kill-wait=3"])
    assert ended.value.code == MISCONFIGURED, "a setting that says nothing to it"


def test_an_engine_that_is_away_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["check", f"--engine=unix://{tmp_path}/docker.sock", f"--run-dir={tmp_path}"]) == FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("crishim: ")
    assert "docker.sock" in line or line.endswith("needs root")
