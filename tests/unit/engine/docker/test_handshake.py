from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crishim.engine.docker.handshake import NEWEST_API, facts_from, negotiate, refuse_unsuitable
from crishim.engine.features import recurses_readonly
from crishim.errors import EngineUnsuitable

VERSION: dict[str, Any] = {
    "Version": "28.5.2",
    "ApiVersion": "1.51",
    "MinAPIVersion": "1.24",
    "Os": "linux",
    "Arch": "amd64",
    "KernelVersion": "6.1.0",
    "Components": [{"Name": "Engine", "Version": "28.5.2"}, {"Name": "containerd"}],
}
INFO: dict[str, Any] = {
    "OSType": "linux",
    "OperatingSystem": "Debian GNU/Linux 13",
    "KernelVersion": "6.1.0",
    "CgroupDriver": "systemd",
    "CgroupVersion": "2",
    "DockerRootDir": "/var/lib/docker",
    "Driver": "overlay2",
    "DriverStatus": [["Backing Filesystem", "extfs"]],
    "Runtimes": {"runc": {"path": "runc"}, "kata": {"path": "/opt/kata"}},
    "DefaultRuntime": "runc",
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=apparmor", "name=cgroupns"],
    "LiveRestoreEnabled": True,
    "ExperimentalBuild": False,
}


@pytest.mark.parametrize(
    ("newest", "oldest", "spoken"),
    [
        ("1.41", "1.12", (1, 41)),
        ("1.51", "1.24", (1, 51)),
        ("1.56", "1.44", NEWEST_API),
        ("1.99", "1.44", NEWEST_API),
        ("1.99", "1.56", NEWEST_API),
        ("2.3", "1.50", NEWEST_API),
        ("1.41", None, (1, 41)),
    ],
)
def test_highest_common_version(newest: str, oldest: str | None, spoken: tuple[int, int]) -> None:
    assert negotiate({"ApiVersion": newest, "MinAPIVersion": oldest}) == spoken


@pytest.mark.parametrize(("newest", "oldest"), [("1.40", "1.12"), ("1.9", "1.1"), ("1.99", "1.57"), ("2.0", "2.0")])
def test_no_common_version_names_both_ranges(newest: str, oldest: str) -> None:
    with pytest.raises(EngineUnsuitable) as caught:
        negotiate({"Version": "x", "ApiVersion": newest, "MinAPIVersion": oldest})
    for figure in (newest, oldest, "1.41", f"1.{NEWEST_API[1]}"):
        assert figure in str(caught.value)


@pytest.mark.parametrize("answer", [{}, {"ApiVersion": "four"}, {"ApiVersion": ["1.41"]}])
def test_what_is_no_engine(answer: dict[str, Any]) -> None:
    with pytest.raises(EngineUnsuitable, match="no Docker Engine"):
        negotiate(answer)


@pytest.mark.parametrize(
    ("version", "info", "pid", "words"),
    [
        ({"Components": [{"Name": "Podman Engine"}]}, {}, 5, "Podman"),
        ({"Os": "windows"}, {}, 5, "windows"),
        ({}, {"OperatingSystem": "Docker Desktop"}, 5, "Docker Desktop"),
        ({}, {"SecurityOptions": ["name=seccomp,profile=default", "name=rootless"]}, 5, "rootless"),
        ({}, {"SecurityOptions": ["name=userns"]}, 5, "userns-remap"),
        ({}, {}, 0, "PID namespace"),
        ({}, {"KernelVersion": "5.15.0"}, 5, "another machine"),
    ],
)
def test_refused(version: dict[str, Any], info: dict[str, Any], pid: int, words: str) -> None:
    with pytest.raises(EngineUnsuitable, match=words):
        refuse_unsuitable(VERSION | version, INFO | info, pid, "6.1.0")


def test_a_plain_engine_is_taken() -> None:
    refuse_unsuitable(VERSION, INFO, 1, "6.1.0")


def test_facts() -> None:
    facts = facts_from(VERSION, INFO, (1, 51), 7)
    assert (facts.name, facts.version, facts.api_version) == ("docker", "28.5.2", (1, 51))
    assert (facts.cgroup_driver, facts.cgroup_version) == ("systemd", 2)
    assert (facts.data_root, facts.storage_driver, facts.containerd_store) == ("/var/lib/docker", "overlay2", False)
    assert (facts.runtimes, facts.default_runtime) == (("kata", "runc"), "runc")
    assert facts.security == {"seccomp", "apparmor", "cgroupns"}
    assert (facts.architecture, facts.kernel, facts.daemon_pid) == ("amd64", "6.1.0", 7)
    assert (facts.live_restore, facts.experimental, facts.cdi) == (True, False, False)


def test_facts_of_a_containerd_store_with_cdi() -> None:
    status = [["driver-type", "io.containerd.snapshotter.v1"]]
    facts = facts_from(VERSION, INFO | {"DriverStatus": status, "CDISpecDirs": ["/etc/cdi"]}, (1, 51), 7)
    assert facts.containerd_store
    assert facts.cdi


def test_cgroup_version_of_an_engine_that_does_not_tell_it() -> None:
    info = {key: value for key, value in INFO.items() if key not in {"CgroupVersion", "CgroupDriver"}}
    facts = facts_from(VERSION, info, (1, 41), 7)
    assert (facts.cgroup_driver, facts.cgroup_version) == ("none", 1)


def test_what_runtimes_say_that_they_can() -> None:
    def runtime(features: str) -> dict[str, object]:
        return {"path": "x", "status": {"org.opencontainers.runtime-spec.features": features}}

    runtimes = {
        "able": runtime('{"mountOptions": ["ro", "rro"]}'),
        "old": runtime('{"mountOptions": ["ro"]}'),
        "odd": runtime("[]"),
        "broken": runtime("{"),
        "silent": {"path": "x", "status": None},
        "older": {"path": "x"},
    }
    facts = facts_from(VERSION, INFO | {"Runtimes": runtimes}, (1, 51), 7)
    assert facts.readonly_recursion == {"able"}
    assert facts.runtimes == tuple(sorted(runtimes))
    for runtime_name, kernel, api, able in (
        ("able", "6.1.0", (1, 51), True),
        ("old", "6.1.0", (1, 51), False),
        ("able", "5.11.9-1", (1, 51), False),
        ("able", "weird", (1, 51), False),
        ("able", "6.1.0", (1, 43), False),
    ):
        given = replace(facts, kernel=kernel, api_version=api)
        assert recurses_readonly(given, runtime_name) is able


def test_fronted_twins_are_no_runtimes_of_pods() -> None:
    runtimes = {
        "runc": {"path": "runc"},
        "crishim-runc": {"path": "/front/crishim-runc"},
        "crishim-mine": {"path": "/mine"},
        "kata": {"runtimeType": "io.containerd.kata.v2"},
        "wordy": {"path": "/w", "runtimeArgs": ["--a", "b"]},
    }
    facts = facts_from(VERSION, INFO | {"Runtimes": runtimes, "DefaultRuntime": "crishim-runc"}, (1, 51), 7)
    assert facts.runtimes == ("crishim-mine", "kata", "runc", "wordy")
    assert facts.default_runtime == "runc", "pods without a handler need no front"
    assert facts.twins == {"runc": "/front/crishim-runc"}
    assert facts.programs == {"crishim-mine": ("/mine",), "runc": ("runc",), "wordy": ("/w", "--a", "b")}
