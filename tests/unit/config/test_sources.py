from __future__ import annotations

import os
from pathlib import Path

import pytest

from crishim.config import ConfigProblems, Settings, load
from crishim.config import sources as sources_module


@pytest.fixture(autouse=True)
def no_file_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "DEFAULT_FILE", tmp_path / "default.toml")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def problems(*args: object, **kwargs: object) -> list[str]:
    with pytest.raises(ConfigProblems) as caught:
        load(*args, **kwargs)  # type: ignore[arg-type]
    return list(caught.value.problems)


def test_nothing_given_is_all_defaults() -> None:
    loaded = load({}, {})
    assert loaded.settings == Settings()
    assert loaded.origins == {}


def test_a_flag_wins_over_the_environment_and_that_over_the_file(file: Path) -> None:
    file.write_text('network = "none"\nlog_level = "error"\nkill_wait = 1\n')
    environ = {"CRISHIM_LOG_LEVEL": "warning", "CRISHIM_KILL_WAIT": "2"}
    loaded = load({"kill_wait": "3"}, environ, file)
    assert (loaded.settings.network, loaded.settings.log_level, loaded.settings.kill_wait) == ("none", "warning", 3.0)
    assert loaded.origins == {
        "network": f"file {file}: network",
        "log_level": "environment CRISHIM_LOG_LEVEL",
        "kill_wait": "flag --kill-wait",
    }


def test_the_default_file_is_read_and_may_be_absent(file: Path) -> None:
    sources_module.DEFAULT_FILE.write_text('network = "none"')
    assert load({}, {}).settings.network == "none"


@pytest.mark.parametrize("by", ["flag", "environment"])
def test_a_file_that_is_named_must_exist(file: Path, by: str) -> None:
    told = problems({}, {"CRISHIM_CONFIG": str(file)} if by == "environment" else {}, file if by == "flag" else None)
    assert told == [f"file {file}: does not exist"]


def test_a_flag_names_the_file_before_the_environment_does(file: Path) -> None:
    file.write_text('network = "none"')
    assert load({}, {"CRISHIM_CONFIG": "/nowhere"}, file).settings.network == "none"


def test_everything_wrong_is_told_at_once_with_source_key_and_what_is_allowed(file: Path) -> None:
    file.write_text('enigne = "simulated:"\nnetwork = "calico"\n[listen]\nx = 1\n')
    told = problems({"log_spool_files": "1000", "lisen": "x"}, {"CRISHIM_KILL_WAIT": "soon", "CRISHIM_FOO": "1"}, file)
    expected = [
        (f"file {file}: enigne: there is no such setting. Did you mean engine? There are: listen, engine,", ""),
        (f"file {file}: network: 'calico' is not allowed: must be one of the networks that are", ""),
        (f"file {file}: listen: {{'x': 1}} is not allowed: ", "string"),
        ("environment CRISHIM_KILL_WAIT: 'soon' is not allowed: ", "number"),
        ("environment CRISHIM_FOO: there is no such setting. There are: CRISHIM_LISTEN, CRISHIM_ENGINE,", ""),
        ("flag --log-spool-files: '1000' is not allowed: must be less than or equal to 100", ""),
        ("flag --lisen: there is no such setting. Did you mean --listen? There are: --listen, --engine,", ""),
    ]
    assert len(told) == len(expected)
    for begins, contains in expected:
        assert any(line.startswith(begins) and contains in line for line in told), (begins, told)
    assert all("\n" not in line for line in told)


def test_a_bad_value_is_told_even_where_a_good_one_replaces_it(file: Path) -> None:
    file.write_text("kill_wait = -1")
    assert len(problems({"kill_wait": "5"}, {}, file)) == 1


@pytest.mark.parametrize("content", [b"network = none", b"\xff\xfe", b'a = "1"\na = "2"'])
def test_a_file_that_is_no_toml_is_told_with_its_place(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    [told] = problems({}, {}, file)
    assert told.startswith(f"file {file}: is not TOML: ")


def test_a_file_that_cannot_be_read_is_told(file: Path) -> None:
    file.mkdir()
    assert problems({}, {}, file) == [f"file {file}: cannot be read: {os.strerror(21)}"]


def test_docker_host_counts_where_nothing_else_names_the_engine(file: Path) -> None:
    environ = {"DOCKER_HOST": "unix:///run/user.sock"}
    loaded = load({}, environ)
    assert loaded.settings.engine == "unix:///run/user.sock"
    assert loaded.origins["engine"] == "environment DOCKER_HOST"
    assert load({}, environ | {"CRISHIM_ENGINE": "simulated:"}).settings.engine == "simulated:"
    file.write_text('engine = "simulated:"')
    assert load({}, environ, file).settings.engine == "simulated:"


def test_a_docker_host_elsewhere_is_refused_only_if_it_counts() -> None:
    environ = {"DOCKER_HOST": "tcp://10.0.0.1:2375"}
    [told] = problems({}, environ)
    assert told.startswith("environment DOCKER_HOST: 'tcp://10.0.0.1:2375' is not allowed: must be unix://")
    assert load({"engine": "simulated:"}, environ).settings.engine == "simulated:"


def test_variables_of_the_projects_own_tests_are_no_settings() -> None:
    assert load({}, {"CRISHIM_SOAK": "1", "CRISHIM_TEST_WORLD": "/x", "CRISHIM_CACHE": "/x"}).settings == Settings()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"metrics_address": "0.0.0.0:9000"}, "flag --metrics-address: '0.0.0.0:9000' is not allowed: it can be"),
        ({"streaming_address": "[2001:db8::1]:0"}, "flag --streaming-address: '[2001:db8::1]:0' is not allowed: it"),
        ({"streaming_key": "/k"}, "flag --streaming-key: '/k' is not allowed: TLS needs a certificate and its key"),
        ({"streaming_certificate": "/c"}, "flag --streaming-certificate: '/c' is not allowed: TLS needs a"),
        ({"streaming_client_ca": "/a"}, "flag --streaming-client-ca: '/a' is not allowed: TLS needs a"),
        ({"engine": "simulated:", "network": "embedded"}, "flag --network: 'embedded' is not allowed: it needs a real"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(flags: dict[str, str], told: str) -> None:
    (problem,) = problems(flags, {})
    assert problem.startswith(told)


@pytest.mark.parametrize(
    "flags",
    [
        {"metrics_address": "0.0.0.0:9000", "metrics_insecure": "true"},
        {"metrics_address": "[::1]:0"},
        {"streaming_address": "192.0.2.1:0", "streaming_certificate": "/c", "streaming_key": "/k"},
        {"streaming_address": "192.0.2.1:0", "streaming_insecure": "true"},
        {"engine": "simulated:", "network": "none"},
    ],
    ids=str,
)
def test_doors_that_are_opened_by_name_are_open(flags: dict[str, str]) -> None:
    assert load(flags, {}).origins.keys() == flags.keys()


def test_contradictions_are_told_with_where_they_come_from(file: Path) -> None:
    file.write_text('metrics_address = "0.0.0.0:9000"')
    environ = {"CRISHIM_STREAMING_ADDRESS": "192.0.2.1:0"}
    assert [problem.partition(" is not")[0] for problem in problems({}, environ, file)] == [
        f"file {file}: metrics_address: '0.0.0.0:9000'",
        "environment CRISHIM_STREAMING_ADDRESS: '192.0.2.1:0'",
    ]
