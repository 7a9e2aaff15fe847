from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from crishim.config import Settings, load
from crishim.config.printed import print_config, to_toml
from crishim.docs import configuration_page
from crishim.images.core import ImageSettings
from crishim.runtime.core import RuntimeSettings

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("key", "value", "is_then"),
    [
        ("listen", "unix:///run/x.sock", "unix:///run/x.sock"),
        ("engine", "simulated:", "simulated:"),
        ("cni_bin_dir", "/a:/b", (Path("/a"), Path("/b"))),
        ("cni_bin_dir", ["/a"], (Path("/a"),)),
        ("log_spool_size", "2MiB", 2 << 20),
        ("log_spool_size", " 3 mb ", 3_000_000),
        ("log_spool_size", 1 << 20, 1 << 20),
        ("kill_wait", "2.5", 2.5),
        ("kill_wait", 0, 0.0),
        ("streaming_address", "[::1]:10250", "[::1]:10250"),
        ("timeline", "/tmp/t.jsonl", Path("/tmp/t.jsonl")),
    ],
)
def test_what_is_allowed(key: str, value: object, is_then: object) -> None:
    assert getattr(Settings.model_validate({key: value}), key) == is_then


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("listen", "/run/x.sock"),
        ("listen", "unix://run/x.sock"),
        ("listen", "tcp://127.0.0.1:1"),
        ("listen", "unix:///" + "x" * 107),
        ("engine", "tcp://127.0.0.1:2375"),
        ("engine", "simulated"),
        ("engine", ""),
        ("state_dir", "state"),
        ("cni_bin_dir", ""),
        ("cni_bin_dir", "/a:b"),
        ("log_spool_size", "1"),
        ("log_spool_size", True),
        ("log_spool_size", "many"),
        ("log_spool_size", 2.5),
        ("kill_wait", True),
        ("kill_wait", -1),
        ("kill_wait", "inf"),
        ("pids_limit", -1),
        ("pids_limit", True),
        ("log_spool_files", 1),
        ("network", "AUTO"),
        ("checkpoint", "postgres"),
        ("streaming_address", "127.0.0.1"),
        ("streaming_address", "127.0.0.1:65536"),
        ("streaming_address", "127.0.0.1:-1"),
        ("streaming_address", "::1:80"),
        ("streaming_address", "0.0.0.0:0"),
        ("streaming_address", "[::]:0"),
        ("streaming_address", "localhost:0"),
        ("streaming_address", ":0"),
    ],
)
def test_what_is_not_allowed(key: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({key: value})
    assert [error["loc"][0] for error in caught.value.errors()] == [key]


def test_a_store_of_another_package_is_allowed_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crishim.checkpoint.registry.store_names", lambda: ["journal", "sqlite"])
    assert Settings(checkpoint="journal").checkpoint == "journal"
    with pytest.raises(ValidationError, match="must be one of the stores that are installed: journal, sqlite"):
        Settings(checkpoint="postgres")


@pytest.mark.parametrize("part", [RuntimeSettings(), ImageSettings()])
def test_the_defaults_are_those_of_the_rooms_that_use_them(part: Any) -> None:
    settings = Settings()
    for name in type(part).__dataclass_fields__:
        assert getattr(settings, name) == getattr(part, name), name


def test_what_operators_and_units_write_keeps_its_name_and_default() -> None:
    """These are in unit files and scripts of others: to rename one, or to change its default, breaks them."""
    expected = {
        "listen": "unix:///run/crishim/crishim.sock",
        "engine": "unix:///var/run/docker.sock",
        "state_dir": Path("/var/lib/crishim"),
        "run_dir": Path("/run/crishim"),
        "netns_dir": Path("/run/netns"),
        "checkpoint": "sqlite",
        "network": "auto",
        "streaming_address": "127.0.0.1:0",
        "log_format": "text",
    }
    settings = Settings()
    assert {name: getattr(settings, name) for name in expected} == expected
    assert {
        "cni_conf_dir",
        "cni_bin_dir",
        "sandbox_image",
        "log_level",
        "metrics_address",
    } <= Settings.model_fields.keys()
    for key, values in (("checkpoint", ("file", "memory")), ("network", ("embedded", "cni", "none"))):
        for value in values:
            assert getattr(Settings.model_validate({key: value}), key) == value
    assert Settings(log_format="json").log_format == "json"


def test_every_setting_is_explained() -> None:
    for key, field in Settings.model_fields.items():
        assert field.description, key


def test_the_printed_configuration_is_a_file_that_gives_the_same(tmp_path: Path) -> None:
    loaded = load({"sandbox_image": 'odd"\\\x7f\n€', "cni_bin_dir": "/a:/b"}, {"CRISHIM_KILL_WAIT": "2"})
    text = print_config(loaded)
    assert "kill_wait = 2.0  # environment CRISHIM_KILL_WAIT" in text
    assert 'listen = "unix:///run/crishim/crishim.sock"  # default' in text
    assert "# timeline is not set  # default" in text
    file = tmp_path / "config.toml"
    file.write_text(text)
    assert load({}, {}, file).settings == loaded.settings


def test_toml_values() -> None:
    assert tomllib.loads(f"x = {to_toml((1, 'a', Path('/b')))}") == {"x": [1, "a", "/b"]}


def test_the_page_of_the_documentation_is_up_to_date() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert page == configuration_page.page(), "write it anew: python -m crishim.docs.configuration_page"
