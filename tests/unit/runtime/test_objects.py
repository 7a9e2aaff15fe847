"""States are derived from what was asked and what is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crishim.checkpoint.record import Carrier, Phase
from crishim.engine.values import ContainerPhase
from crishim.model import (
    LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext,
    NamespaceMode,
    NamespaceOption,
)
from crishim.network.api import Attached
from crishim.runtime.objects import Container, Sandbox

CREATED, RUNNING, EXITED, REMOVING = (
    ContainerPhase.CREATED,
    ContainerPhase.RUNNING,
    ContainerPhase.EXITED,
    ContainerPhase.REMOVING,
)


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({}, "READY"),
        ({"live": {"paused": True}}, "READY"),
        ({"live": {"started_at": 2_001}}, "NOTREADY"),
        ({"live": {"phase": EXITED, "pid": 0}}, "NOTREADY"),
        ({"live": {"phase": CREATED, "pid": 0, "started_at": 0}, "started_at": 0}, "NOTREADY"),
        ({"live": {"phase": REMOVING}}, "NOTREADY"),
        ({"live": None}, "NOTREADY"),
        ({"phase": Phase.CREATING}, "NOTREADY"),
        ({"phase": Phase.STOPPED}, "NOTREADY"),
        ({"live": None, "seen": False}, "READY"),
        ({"live": None, "seen": False, "phase": Phase.CREATING}, "NOTREADY"),
        ({"live": None, "seen": False, "phase": Phase.STOPPED}, "NOTREADY"),
        ({"live": None, "carrier": Carrier.ANCHORED}, "READY"),
        ({"live": None, "carrier": Carrier.ANCHORED, "seen": False}, "READY"),
        ({"live": None, "carrier": Carrier.ANCHORED, "held": False}, "NOTREADY"),
        ({"live": None, "carrier": Carrier.ANCHORED, "phase": Phase.CREATING}, "NOTREADY"),
        ({"live": None, "carrier": Carrier.ANCHORED, "phase": Phase.STOPPED}, "NOTREADY"),
    ],
    ids=str,
)
def test_sandbox_state(make_sandbox: Callable[..., Sandbox], values: dict[str, Any], state: str) -> None:
    sandbox = make_sandbox(**values)
    assert sandbox.state.name == f"SANDBOX_{state}"
    assert sandbox.ready == (state == "READY")


@pytest.mark.parametrize(
    ("live", "state", "reason"),
    [
        ({"phase": CREATED, "started_at": 0}, "CREATED", ""),
        ({}, "RUNNING", ""),
        ({"paused": True}, "RUNNING", ""),
        ({"phase": EXITED}, "EXITED", "Completed"),
        ({"phase": EXITED, "exit_code": 3}, "EXITED", "Error"),
        ({"phase": EXITED, "exit_code": 137}, "EXITED", "Error"),
        ({"phase": EXITED, "exit_code": 137, "oom_killed": True}, "EXITED", "OOMKilled"),
        ({"phase": EXITED, "exit_code": 0, "oom_killed": True}, "EXITED", "OOMKilled"),
        ({"phase": REMOVING}, "EXITED", "Completed"),
        (
            {"phase": CREATED, "started_at": 0, "exit_code": 127, "error": "no such file"},
            "EXITED",
            "ContainerCannotRun",
        ),
        ({"phase": CREATED, "started_at": 0, "exit_code": 126}, "EXITED", "ContainerCannotRun"),
        ({"phase": CREATED, "started_at": 0, "exit_code": 128, "error": "mount"}, "EXITED", "StartError"),
        ({"phase": CREATED, "started_at": 0, "error": "mount"}, "EXITED", "StartError"),
    ],
    ids=str,
)
def test_container_state(
    make_container: Callable[..., Container], live: dict[str, Any], state: str, reason: str
) -> None:
    container = make_container(live=live)
    assert (container.state.name, container.reason) == (f"CONTAINER_{state}", reason)
    assert container.message == (live.get("error", "") if state == "EXITED" else "")
    assert container.exit_code == (live.get("exit_code", 0) if state == "EXITED" else 0)


def test_what_the_engine_has_not_told_of_is_unknown(make_container: Callable[..., Container]) -> None:
    container = make_container(live={"phase": CREATED}, seen=False, found=True)
    assert container.state.name == "CONTAINER_UNKNOWN"
    assert not container.unclaimed
    assert not container.running


@pytest.mark.parametrize(
    ("live", "started", "finished"),
    [
        ({"phase": CREATED, "started_at": 0}, 0, 0),
        ({}, 2_000, 0),
        ({"started_at": 5}, 1_000, 0),  # a clock that went back
        ({"phase": EXITED, "finished_at": 3_000}, 2_000, 3_000),
        ({"phase": EXITED, "finished_at": 0}, 2_000, 2_000),
        ({"phase": CREATED, "started_at": 0, "error": "no"}, 1_000, 1_000),
    ],
    ids=str,
)
def test_times_never_go_backwards(
    make_container: Callable[..., Container], live: dict[str, Any], started: int, finished: int
) -> None:
    container = make_container(live=live)
    assert (container.created_at, container.started_at, container.finished_at) == (1_000, started, finished)


@pytest.mark.parametrize(
    ("found", "live", "unclaimed"),
    [
        (True, {"phase": CREATED, "started_at": 0}, True),
        (False, {"phase": CREATED, "started_at": 0}, False),
        (True, {}, False),
        (True, {"phase": EXITED}, False),
        (True, {"phase": CREATED, "started_at": 0, "error": "no"}, False),
    ],
    ids=str,
)
def test_what_nobody_was_told_of(
    make_container: Callable[..., Container], found: bool, live: dict[str, Any], unclaimed: bool
) -> None:
    assert make_container(found=found, live=live).unclaimed is unclaimed


def test_addresses_are_told_of_a_ready_pod_only(make_sandbox: Callable[..., Sandbox]) -> None:
    network = Attached("fake", ips=("10.0.0.1", "fd00::1"))
    host = LinuxPodSandboxConfig(
        security_context=LinuxSandboxSecurityContext(namespace_options=NamespaceOption(network=NamespaceMode.NODE))
    )
    assert make_sandbox(network=network).ips == ("10.0.0.1", "fd00::1")
    assert make_sandbox(network=network, phase=Phase.STOPPED).ips == ()
    assert make_sandbox(network=network, config={"linux": host}).ips == ()
    assert make_sandbox().ips == ()


def test_the_process_of_what_does_not_run_is_none(make_sandbox: Callable[..., Sandbox]) -> None:
    assert make_sandbox().pid == 42
    assert make_sandbox(live={"phase": EXITED}).pid == 0
    assert make_sandbox(live=None).pid == 0
