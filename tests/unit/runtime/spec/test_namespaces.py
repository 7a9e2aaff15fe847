"""Whose namespaces sandbox and containers live in."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from crishim.engine.simulated.facts import default_facts
from crishim.engine.values import EngineFacts
from crishim.errors import InvalidArgument, UnsupportedField
from crishim.model import IDMapping, NamespaceMode, NamespaceOption, UserNamespace
from crishim.runtime.spec.cgroup import cgroupns_mode, make_cgroup_parent
from crishim.runtime.spec.namespaces import Modes, check_user_namespace, make_container_modes, make_sandbox_modes
from crishim.runtime.spec.ways import Ways

P, C, N, T = NamespaceMode.POD, NamespaceMode.CONTAINER, NamespaceMode.NODE, NamespaceMode.TARGET
JOINED = "container:s1"


@pytest.mark.parametrize(
    ("options", "modes"),
    [
        (NamespaceOption(), Modes(network="none", ipc="shareable", pid="", uts="")),
        (NamespaceOption(pid=C), Modes(network="none", ipc="shareable", pid="", uts="")),
        (NamespaceOption(network=N), Modes(network="host", ipc="shareable", pid="", uts="host")),
        (NamespaceOption(ipc=N, pid=N), Modes(network="none", ipc="host", pid="host", uts="")),
        (NamespaceOption(network=N, ipc=N, pid=N), Modes(network="host", ipc="host", pid="host", uts="host")),
    ],
)
def test_sandbox(options: NamespaceOption, modes: Modes) -> None:
    assert make_sandbox_modes(options, "f") == modes


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (NamespaceOption(network=C), "f.network"),
        (NamespaceOption(network=T), "f.network"),
        (NamespaceOption(ipc=C), "f.ipc"),
        (NamespaceOption(pid=T), "f.pid"),
        (NamespaceOption(target_id="main"), "f.target_id"),
        (NamespaceOption(userns_options=UserNamespace(mode=C)), "f.userns_options.mode"),
    ],
)
def test_sandbox_refuses(options: NamespaceOption, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make_sandbox_modes(options, "f")
    assert caught.value.field == field


def resolve(target: str) -> str:
    if target != "main":
        raise InvalidArgument("no such container", field="f.target_id")
    return "c1"


HOST = NamespaceOption(network=N, ipc=N, pid=N)


@pytest.mark.parametrize(
    ("options", "pod", "modes"),
    [
        (None, NamespaceOption(), Modes(JOINED, JOINED, JOINED, "")),
        (None, HOST, Modes(JOINED, "host", JOINED, "host")),
        (NamespaceOption(), NamespaceOption(), Modes(JOINED, JOINED, JOINED, "")),
        (NamespaceOption(pid=C), NamespaceOption(), Modes(JOINED, JOINED, "", "")),
        (NamespaceOption(pid=N), NamespaceOption(), Modes(JOINED, JOINED, "host", "")),
        (NamespaceOption(pid=T, target_id="main"), NamespaceOption(), Modes(JOINED, JOINED, "container:c1", "")),
        (NamespaceOption(network=N, ipc=N, pid=C), HOST, Modes(JOINED, "host", "", "host")),
        (NamespaceOption(ipc=N), NamespaceOption(ipc=N), Modes(JOINED, "host", JOINED, "")),
    ],
)
def test_container(options: NamespaceOption | None, pod: NamespaceOption, modes: Modes) -> None:
    assert make_container_modes(options, pod, "s1", resolve, "f") == modes


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (NamespaceOption(network=N), "f.network"),
        (NamespaceOption(ipc=N), "f.ipc"),
        (NamespaceOption(ipc=C), "f.ipc"),
        (NamespaceOption(target_id="main"), "f.target_id"),
        (NamespaceOption(pid=T, target_id="other"), "f.target_id"),
        (NamespaceOption(userns_options=UserNamespace(mode=N, uids=(IDMapping(),))), "f.userns_options"),
    ],
)
def test_container_refuses_a_contradiction(options: NamespaceOption, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make_container_modes(options, NamespaceOption(), "s1", resolve, "f")
    assert caught.value.field == field


ONE = (IDMapping(host_id=1000, container_id=0, length=100),)


@pytest.mark.parametrize("user", [None, UserNamespace(mode=N)])
def test_the_hosts_user_namespace(user: UserNamespace | None) -> None:
    check_user_namespace(user, "f")


@pytest.mark.parametrize(
    ("user", "error", "field"),
    [
        (UserNamespace(mode=N, uids=ONE), InvalidArgument, "f"),
        (UserNamespace(mode=N, gids=ONE), InvalidArgument, "f"),
        (UserNamespace(mode=C), InvalidArgument, "f.mode"),
        (UserNamespace(mode=T), InvalidArgument, "f.mode"),
        (UserNamespace(mode=P), InvalidArgument, "f.uids"),
        (UserNamespace(mode=P, uids=ONE * 2, gids=ONE), InvalidArgument, "f.uids"),
        (UserNamespace(mode=P, uids=ONE), InvalidArgument, "f.gids"),
        (UserNamespace(mode=P, uids=ONE, gids=ONE), UnsupportedField, "f"),
    ],
)
def test_user_namespaces(user: UserNamespace, error: type[InvalidArgument], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_user_namespace(user, "f")
    assert (type(caught.value), caught.value.field) == (error, field)


# --- cgroups


@pytest.mark.parametrize(
    ("driver", "asked", "parent"),
    [
        ("cgroupfs", "", ""),
        ("cgroupfs", "/kubepods/podx", "/kubepods/podx"),
        ("none", "/kubepods/podx", "/kubepods/podx"),
        ("systemd", "", ""),
        ("systemd", "/kubepods.slice/kubepods-podx.slice", "kubepods-podx.slice"),
        ("systemd", "/a.slice/b.slice/", "b.slice"),
        ("systemd", "b.slice", "b.slice"),
    ],
)
def test_cgroup_parent(driver: str, asked: str, parent: str) -> None:
    facts = _facts(cgroup_driver=driver)
    assert make_cgroup_parent(asked, facts, "f") == parent


@pytest.mark.parametrize(
    ("driver", "asked"),
    [("systemd", "/kubepods/podx"), ("systemd", "/"), ("cgroupfs", "/a/../../b"), ("systemd", "/../a.slice")],
)
def test_cgroup_parent_refused(driver: str, asked: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make_cgroup_parent(asked, _facts(cgroup_driver=driver), "f")
    assert caught.value.field == "f"


@pytest.mark.parametrize(
    ("version", "privileged", "mode"), [(2, False, "private"), (2, True, "host"), (1, False, "host"), (1, True, "host")]
)
def test_cgroup_namespace(version: int, privileged: bool, mode: str) -> None:
    assert cgroupns_mode(_facts(cgroup_version=version), privileged=privileged) == mode


def _facts(**changes: Any) -> EngineFacts:
    return dataclasses.replace(default_facts("/"), **changes)


# --- a user namespace of the pod's own, where a front is

RUN = (IDMapping(container_id=0, host_id=100_000, length=65_536),)
OWN = UserNamespace(mode=P, uids=RUN, gids=RUN)


def test_a_user_namespace_with_a_front() -> None:
    ways = Ways(runtime="runc", twin="crishim-runc")
    for pid in (C, P):
        modes = make_sandbox_modes(NamespaceOption(pid=pid, userns_options=OWN), "f", ways)
        assert (modes.network, modes.ipc, modes.pid, ways.taken) == ("none", "shareable", "", True)


@pytest.mark.parametrize(
    ("options", "error", "field"),
    [
        (NamespaceOption(pid=N, userns_options=OWN), UnsupportedField, "f.pid"),
        (NamespaceOption(pid=C, ipc=N, userns_options=OWN), UnsupportedField, "f.ipc"),
        (NamespaceOption(pid=C, network=N, userns_options=OWN), UnsupportedField, "f.network"),
        (
            NamespaceOption(pid=C, userns_options=replace(OWN, uids=(replace(RUN[0], container_id=1),))),
            InvalidArgument,
            "f.userns_options.uids[0].container_id",
        ),
        (
            NamespaceOption(pid=C, userns_options=replace(OWN, gids=(replace(RUN[0], length=0),))),
            InvalidArgument,
            "f.userns_options.gids[0].length",
        ),
        (
            NamespaceOption(pid=C, userns_options=replace(OWN, gids=(replace(RUN[0], length=2**32 - 1),))),
            InvalidArgument,
            "f.userns_options.gids[0].length",
        ),
    ],
    ids=str,
)
def test_what_does_not_go_with_it(options: NamespaceOption, error: type[InvalidArgument], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make_sandbox_modes(options, "f", Ways(runtime="runc", twin="crishim-runc"))
    assert (type(caught.value), caught.value.field) == (error, field)


def test_a_containers_user_namespace_is_the_pods() -> None:
    pod = NamespaceOption(pid=C, userns_options=OWN)
    for user in (OWN, None):
        assert make_container_modes(NamespaceOption(pid=C, userns_options=user), pod, "s", str, "f").pid == ""
    other = replace(OWN, uids=(replace(RUN[0], host_id=5),))
    for options, field in (
        (NamespaceOption(pid=C, userns_options=other), "f.userns_options"),
        (NamespaceOption(pid=C, userns_options=UserNamespace(mode=N)), "f.userns_options"),
        (NamespaceOption(pid=P, userns_options=OWN), "f.pid"),
        (NamespaceOption(pid=N, userns_options=OWN), "f.pid"),
    ):
        with pytest.raises(InvalidArgument) as caught:
            make_container_modes(options, pod, "s", str, "f", anchor="a")
        assert caught.value.field == field
