"""What holds a pod's namespaces, what is made for it, and what its containers are told to join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from crishim.checkpoint.record import Carrier
from crishim.engine.values import ContainerSpec
from crishim.errors import FrontFailed, InvalidArgument
from crishim.model import (
    ContainerConfig,
    IDMapping,
    LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext,
    Mount,
    NamespaceMode,
    NamespaceOption,
    PodSandboxConfig,
    PodSandboxMetadata,
    UserNamespace,
)
from crishim.runtime.anchored.carrier import choose_carrier, need_twin, shares_processes
from crishim.runtime.anchored.pod import kinds_of, make_wanted, with_hostname, with_pod
from crishim.runtime.anchored.process import make_object_spec
from crishim.runtime.core import RuntimeSettings
from crishim.runtime.host import Host
from crishim.runtime.labels import make_anchored_labels
from crishim.runtime.objects import Sandbox
from crishim.runtime.oci.wish import Wish
from crishim.runtime.spec.namespaces import make_container_modes

POD, CONTAINER, NODE, TARGET = NamespaceMode.POD, NamespaceMode.CONTAINER, NamespaceMode.NODE, NamespaceMode.TARGET
FRONTED, BARE = Host(twins={"runc": "crishim-runc"}), Host()


def config_of(**changes: Any) -> PodSandboxConfig:
    """A pod's config; namespace modes and `sysctls` go where they belong."""
    modes = NamespaceOption(**{k: changes.pop(k) for k in ("network", "ipc", "pid", "userns_options") if k in changes})
    linux = LinuxPodSandboxConfig(
        security_context=LinuxSandboxSecurityContext(namespace_options=modes), sysctls=changes.pop("sysctls", {})
    )
    return PodSandboxConfig(metadata=PodSandboxMetadata(name="web", uid="u", namespace="ns"), linux=linux, **changes)


@pytest.mark.parametrize(
    ("setting", "pid", "host", "carrier"),
    [
        ("auto", CONTAINER, FRONTED, Carrier.ANCHORED),
        ("auto", NODE, FRONTED, Carrier.ANCHORED),
        ("auto", POD, FRONTED, Carrier.ANCHORED),
        ("auto", CONTAINER, BARE, Carrier.PAUSE),
        ("pause", CONTAINER, FRONTED, Carrier.PAUSE),
        ("anchored", CONTAINER, FRONTED, Carrier.ANCHORED),
        ("pause", POD, FRONTED, Carrier.PAUSE),
        ("anchored", POD, FRONTED, Carrier.ANCHORED),
        ("auto", POD, BARE, Carrier.PAUSE),
    ],
)
def test_carrier(setting: Any, pid: NamespaceMode, host: Host, carrier: Carrier) -> None:
    assert choose_carrier(config_of(pid=pid), "runc", host, RuntimeSettings(carrier=setting)) is carrier


def test_no_front_for_what_is_to_be_anchored() -> None:
    with pytest.raises(FrontFailed, match="'kata' has no front"):
        choose_carrier(config_of(pid=CONTAINER), "kata", FRONTED, RuntimeSettings(carrier="anchored"))
    with pytest.raises(FrontFailed, match="the pod is anchored"):
        need_twin("runc", BARE)
    assert need_twin("runc", FRONTED) == "crishim-runc"


def test_a_pod_without_options_shares_its_processes() -> None:
    assert shares_processes(PodSandboxConfig())
    assert shares_processes(config_of(pid=POD))
    assert not shares_processes(config_of(pid=CONTAINER))
    assert not shares_processes(config_of(pid=NODE))


@pytest.mark.parametrize(
    ("network", "ipc", "kinds"),
    [
        (POD, POD, {"network", "uts", "ipc"}),
        (NODE, POD, {"ipc"}),
        (POD, NODE, {"network", "uts"}),
        (NODE, NODE, set()),
    ],
)
def test_kinds(network: NamespaceMode, ipc: NamespaceMode, kinds: set[str]) -> None:
    assert kinds_of(config_of(network=network, ipc=ipc, pid=CONTAINER)) == kinds


def test_what_is_made() -> None:
    config = config_of(hostname="a-name", pid=CONTAINER, sysctls={"net.ipv4.ping_group_range": "1 0"})
    wanted = make_wanted(config, "id", "nameserver x\n", 4096, {"resolv.conf": "not this", "hosts": "nor this"})
    assert (wanted.hostname, wanted.shm_size) == ("a-name", 4096)
    assert wanted.sysctls == {"net.ipv4.ip_unprivileged_port_start": "0", "net.ipv4.ping_group_range": "1 0"}
    assert wanted.files["resolv.conf"] == "nameserver x\n"
    assert wanted.files["hostname"] == "a-name\n"
    assert "localhost" in wanted.files["hosts"]


def test_the_engines_settings_give_way_in_any_spelling() -> None:
    wanted = make_wanted(config_of(pid=CONTAINER, sysctls={"net/ipv4/ping_group_range": "1 0"}), "id", "", 0, {})
    assert wanted.sysctls == {"net.ipv4.ip_unprivileged_port_start": "0", "net/ipv4/ping_group_range": "1 0"}


def test_what_a_pod_has_as_its_host() -> None:
    files = {"resolv.conf": "a", "hosts": "b", "hostname": "c"}
    wanted = make_wanted(config_of(network=NODE, pid=CONTAINER), "id", "", 0, files)
    assert (wanted.files, wanted.hostname, wanted.sysctls) == (files, "", {})
    assert make_wanted(config_of(pid=CONTAINER), "0123456789abcdef", "", 0, files).hostname == "0123456789ab"


def test_what_containers_join(make_sandbox: Callable[..., Sandbox]) -> None:
    linux = config_of(pid=CONTAINER).linux
    pod = make_sandbox(config={"linux": linux}, netns_path="/netns/s1", carrier=Carrier.ANCHORED).record
    config = ContainerConfig(mounts=(Mount(container_path="/etc/hosts/", host_path="/x"),))
    wish = with_pod(Wish(ambient=("CAP_KILL",)), pod, config.mounts, "/run/pods/s1")
    assert wish.namespaces == {"network": "/netns/s1", "ipc": "/run/pods/s1/ipc", "uts": "/run/pods/s1/uts"}
    assert wish.shm_source == "/run/pods/s1/shm"
    assert wish.files == {"/etc/resolv.conf": "/run/pods/s1/resolv.conf", "/etc/hostname": "/run/pods/s1/hostname"}
    assert wish.ambient == ("CAP_KILL",)


def test_containers_of_a_pod_on_the_hosts_ipc_have_its_shared_memory(make_sandbox: Callable[..., Sandbox]) -> None:
    pod = make_sandbox(config={"linux": config_of(ipc=NODE, network=NODE).linux}, carrier=Carrier.ANCHORED).record
    wish = with_pod(None, pod, (), "/f")
    assert (wish.namespaces, wish.shm_source, len(wish.files)) == ({}, "", 3)


def test_the_engine_does_not_name_the_anchor(make_sandbox: Callable[..., Sandbox]) -> None:
    linux = config_of(pid=CONTAINER).linux
    pod = make_sandbox(config={"linux": linux, "hostname": "a-name"}).record
    assert with_hostname((("A", "1"),), ("PATH=/bin",), pod) == (("A", "1"), ("HOSTNAME", "a-name"))
    assert with_hostname((("HOSTNAME", "x"),), (), pod) == (("HOSTNAME", "x"),)
    assert with_hostname((), ("HOSTNAME=x",), pod) == ()
    host = make_sandbox(config={"linux": config_of(network=NODE).linux}).record
    assert with_hostname((), (), host) == ()


@pytest.mark.parametrize(
    ("pod", "asked", "modes"),
    [
        ({}, None, ("container:anchor", "private", "", "")),
        ({"pid": NODE}, None, ("container:anchor", "private", "host", "")),
        ({}, {"pid": TARGET, "target_id": "c1"}, ("container:anchor", "private", "container:c1", "")),
        ({"network": NODE}, None, ("host", "private", "", "host")),
        ({"network": NODE, "ipc": NODE}, None, ("host", "host", "", "host")),
    ],
)
def test_modes(pod: dict[str, Any], asked: dict[str, Any] | None, modes: tuple[str, ...]) -> None:
    options = NamespaceOption(**({"pid": CONTAINER} | pod))
    wanted = None if asked is None else NamespaceOption(**asked)
    found = make_container_modes(wanted, options, "s1", lambda target: target, "f", anchor="container:anchor")
    assert (found.network, found.ipc, found.pid, found.uts) == modes


@pytest.mark.parametrize("asked", [None, NamespaceOption(pid=POD)])
def test_shared_processes_are_those_of_the_pods_process(asked: NamespaceOption | None) -> None:
    options = NamespaceOption(pid=POD)
    found = make_container_modes(asked, options, "s1", str, "f", anchor="container:anchor", process="p1")
    assert (found.network, found.ipc, found.pid, found.uts) == ("container:anchor", "private", "container:p1", "")


def object_spec(network: str = "none", ipc: str = "shareable", user: str = "", **options: Any) -> ContainerSpec:
    spec = ContainerSpec(
        image="", labels={"a": "b"}, runtime="runc", hostname="web", sysctls={"net.a": "1"}, shm_size=5, user=user
    )
    spec = replace(spec, network_mode=network, ipc_mode=ipc)
    return make_object_spec(config_of(**options), spec, "s1", FRONTED, "container:anchor")


def test_the_object_is_the_process_where_there_is_one() -> None:
    plain = object_spec(pid=CONTAINER)
    assert (plain.runtime, plain.network_mode, plain.hostname, plain.sysctls) == ("runc", "none", "web", {"net.a": "1"})
    process = object_spec(pid=POD)
    assert (process.runtime, process.network_mode, process.ipc_mode) == ("crishim-runc", "container:anchor", "private")
    assert (process.hostname, process.sysctls, process.user) == ("", {}, "")
    assert process.labels == plain.labels == {"a": "b", **make_anchored_labels("s1")}
    host = object_spec("host", "host", pid=POD)
    assert (host.runtime, host.network_mode, host.ipc_mode) == ("crishim-runc", "host", "host")
    with pytest.raises(FrontFailed):
        make_object_spec(config_of(pid=POD), plain, "s1", BARE, "container:anchor")


@pytest.mark.parametrize(("length", "asked", "user"), [(65_536, "", ""), (65_535, "", "0:0"), (1000, "7", "7")])
def test_the_process_is_a_user_that_there_is(length: int, asked: str, user: str) -> None:
    ids = (IDMapping(container_id=0, host_id=100_000, length=length),)
    own = UserNamespace(mode=POD, uids=ids, gids=ids)
    assert object_spec(user=asked, pid=POD, userns_options=own).user == user


def test_processes_are_not_shared_where_nobody_reaps() -> None:
    options = NamespaceOption(pid=CONTAINER)
    with pytest.raises(InvalidArgument, match="pid"):
        make_container_modes(NamespaceOption(pid=POD), options, "s1", str, "f", anchor="container:anchor")
