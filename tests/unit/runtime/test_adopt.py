"""Records made from the engine's labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crishim.checkpoint.record import Carrier, Phase
from crishim.engine.values import ContainerPhase, EngineContainer
from crishim.model import NamespaceMode, PodSandboxConfig, PodSandboxMetadata
from crishim.network.api import Attached
from crishim.runtime import labels
from crishim.runtime.adopt import (
    adopt_anchored,
    adopt_container,
    adopt_sandbox,
    lost_sandbox,
    settle_anchored,
    unseen_container,
)

Make = Callable[..., EngineContainer]
POD = PodSandboxMetadata(name="web", uid="u", namespace="ns", attempt=0)
NAME = "/k8s_POD_web_ns_u_0"


@pytest.mark.parametrize(
    ("live", "ips", "has_addresses", "phase"),
    [
        ({}, ("10.0.0.1",), True, Phase.READY),
        ({}, (), True, Phase.STOPPED),
        ({}, (), False, Phase.READY),
        ({"network_mode": "host"}, (), True, Phase.READY),
        ({"phase": ContainerPhase.EXITED, "pid": 0}, (), True, Phase.STOPPED),
        ({"phase": ContainerPhase.EXITED, "pid": 0, "network_mode": "host"}, (), True, Phase.STOPPED),
        ({"phase": ContainerPhase.CREATED, "pid": 0, "started_at": 0}, (), True, Phase.CREATING),
        (
            {"phase": ContainerPhase.CREATED, "pid": 0, "started_at": 0, "network_mode": "host"},
            (),
            True,
            Phase.CREATING,
        ),
        ({"phase": ContainerPhase.REMOVING, "pid": 0}, (), False, Phase.STOPPED),
    ],
    ids=str,
)
def test_how_far_it_had_come(
    make_live: Make, live: dict[str, Any], ips: tuple[str, ...], has_addresses: bool, phase: Phase
) -> None:
    record = adopt_sandbox(
        make_live("s1", name=NAME, **live), "/netns/s1", ips, has_addresses=has_addresses, pinned=True
    )
    assert record is not None
    assert record.phase is phase
    host = live.get("network_mode") == "host"
    assert (record.netns_path, record.network) == (("", None) if host else ("/netns/s1", Attached("", ips=ips)))
    assert (record.created_at, record.image_ref) == (1_000, "sha256:1")
    assert record.started_at == live.get("started_at", 2_000)


@pytest.mark.parametrize(
    ("held", "ips", "has_addresses", "phase"),
    [
        (True, ("10.0.0.1",), True, Phase.READY),
        (True, (), True, Phase.CREATING),
        (True, (), False, Phase.READY),
        (False, ("10.0.0.1",), True, Phase.CREATING),
        (False, (), False, Phase.CREATING),
    ],
)
@pytest.mark.parametrize("network_mode", ["none", "host"])
def test_how_far_an_anchored_one_had_come(
    make_live: Make, held: bool, ips: tuple[str, ...], has_addresses: bool, phase: Phase, network_mode: str
) -> None:
    config = PodSandboxConfig(metadata=POD)
    told = {**labels.make_sandbox_labels(config, "kata"), **labels.make_anchored_labels("s1")}
    live = make_live("o1", name=NAME, phase=ContainerPhase.CREATED, labels=told, network_mode=network_mode)
    assert labels.anchored_id(live.labels) == "s1"
    found = adopt_anchored(live, "s1", "/netns/s1", ips)
    assert found is not None
    record = settle_anchored(found, held=held, has_addresses=has_addresses)
    assert (record.id, record.object_id, record.carrier) == ("s1", "o1", Carrier.ANCHORED)
    assert (record.config, record.runtime_handler) == (config, "kata")
    host = network_mode == "host"
    assert (record.netns_path, record.network) == (("", None) if host else ("/netns/s1", Attached("", ips=ips)))
    assert record.phase is (phase if not host else Phase.READY if held else Phase.CREATING)


def test_labels_of_a_container_tell_of_no_anchored_sandbox() -> None:
    told = labels.make_anchored_labels("s1") | {labels.TYPE: labels.CONTAINER}
    assert labels.anchored_id(told) == ""


def test_a_request_is_taken_as_it_came(make_live: Make) -> None:
    config = PodSandboxConfig(metadata=POD, labels={"annotation.x": "1"})
    live = make_live("s1", labels=labels.make_sandbox_labels(config, "runsc"), network_mode="host", ipc_mode="host")
    record = adopt_sandbox(live, "", (), has_addresses=True, pinned=False)
    assert record is not None
    assert (record.config, record.runtime_handler) == (config, "runsc")


@pytest.mark.parametrize(
    ("ours", "network_mode", "pinned", "phase"),
    [
        (True, "none", False, Phase.CREATING),
        (True, "none", True, Phase.READY),
        (True, "host", False, Phase.READY),
        (False, "none", False, Phase.READY),
    ],
)
def test_one_of_ours_that_runs_unpinned_was_left_by_a_call_that_died(
    make_live: Make, ours: bool, network_mode: str, pinned: bool, phase: Phase
) -> None:
    told = labels.make_sandbox_labels(PodSandboxConfig(metadata=POD), "") if ours else {}
    live = make_live("s1", name=NAME, labels=told, network_mode=network_mode)
    record = adopt_sandbox(live, "/netns/s1", (), has_addresses=False, pinned=pinned)
    assert record is not None
    assert record.phase is phase


@pytest.mark.parametrize(
    ("live", "network", "ipc", "pid"),
    [
        ({"ipc_mode": "shareable"}, "POD", "POD", "CONTAINER"),
        ({"network_mode": "host", "ipc_mode": "host", "pid_mode": "host"}, "NODE", "NODE", "NODE"),
    ],
)
def test_other_shims_namespaces_are_read_from_the_engine(
    make_live: Make, live: dict[str, Any], network: str, ipc: str, pid: str
) -> None:
    record = adopt_sandbox(make_live("s1", name=NAME, cgroup_parent="/kubepods", privileged=True, **live), "", (),
                           has_addresses=False, pinned=False)  # fmt: skip
    assert record is not None
    linux = record.config.linux
    assert linux is not None
    assert linux.security_context is not None
    assert (linux.cgroup_parent, linux.security_context.privileged) == ("/kubepods", True)
    options = linux.security_context.namespace_options
    assert options is not None
    modes = [NamespaceMode[mode] for mode in (network, ipc, pid)]
    assert [options.network, options.ipc, options.pid] == modes


def test_whose_it_is_must_be_told(make_live: Make) -> None:
    assert adopt_sandbox(make_live("s1", name="/stranger"), "", (), has_addresses=False, pinned=True) is None
    assert adopt_container(make_live(name="/stranger"), "sha256:1") is None
    assert lost_sandbox(make_live(name="/stranger"), "s1", "") is None
    assert lost_sandbox(make_live(name="/k8s_main_web_ns_u_0"), "", "") is None


def test_a_container_of_the_convention(make_live: Make) -> None:
    record = adopt_container(make_live(name="/k8s_main_web_ns_u_4", image="busybox:1"), "sha256:2")
    assert record is not None
    assert record.config.metadata is not None
    assert (record.config.metadata.name, record.config.metadata.attempt) == ("main", 4)
    assert (record.image_ref, record.created_at) == ("sha256:2", 1_000)


def test_what_stands_for_a_lost_sandbox(make_live: Make) -> None:
    record = lost_sandbox(make_live(name="/k8s_main_web_ns_u_4"), "s1", "/netns/s1")
    assert record is not None
    assert (record.id, record.phase, record.config.metadata) == ("s1", Phase.STOPPED, POD)
    assert record.config.labels["io.kubernetes.pod.uid"] == "u"
    # So that its pin and its attachment are released.
    assert (record.netns_path, record.network) == ("/netns/s1", Attached(""))


def test_what_stands_for_an_answer(make_live: Make) -> None:
    record = adopt_container(make_live(name="/k8s_main_web_ns_u_4"), "sha256:2")
    assert record is not None
    live = unseen_container(record)
    assert (live.id, live.created_at, live.started_at, live.image_id) == ("c1", 1_000, 0, "sha256:2")
