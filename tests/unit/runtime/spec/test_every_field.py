"""No field of a pod's or container's request is dropped: each changes what the engine is told, is refused, or is listed
here with who carries it instead. A field that is new in the model must be placed, or these tests fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crishim.engine.values import ContainerSpec, EngineFacts
from crishim.errors import CRIError
from crishim.model import (
    Capability,
    CDIDevice,
    ContainerConfig,
    ContainerMetadata,
    Device,
    DNSConfig,
    HugepageLimit,
    IDMapping,
    ImageSpec,
    KeyValue,
    LinuxContainerConfig,
    LinuxContainerResources,
    LinuxContainerSecurityContext,
    LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext,
    Mount,
    MountPropagation,
    NamespaceMode,
    NamespaceOption,
    PodSandboxConfig,
    PodSandboxMetadata,
    PortMapping,
    ProfileType,
    SecurityProfile,
    SELinuxOption,
    Signal,
    SupplementalGroupsPolicy,
    UserNamespace,
)
from crishim.runtime.core import RuntimeSettings
from crishim.runtime.host import Host
from crishim.runtime.labels import CONFIG
from crishim.runtime.objects import Sandbox
from crishim.runtime.spec.container import make_container_spec
from crishim.runtime.spec.sandbox import make_sandbox_spec

Make = Callable[[Any], ContainerSpec]
CHANGED, REFUSED = "changed", "refused"

_RUN_OF_IDS = (IDMapping(host_id=100_000, container_id=0, length=65_536),)
_CONTEXT: dict[str, tuple[Any, str]] = {
    "namespace_options.network": (NamespaceMode.NODE, CHANGED),
    "namespace_options.pid": (NamespaceMode.NODE, CHANGED),
    "namespace_options.ipc": (NamespaceMode.NODE, CHANGED),
    "namespace_options.target_id": ("c1", REFUSED),
    "namespace_options.userns_options": (UserNamespace(uids=_RUN_OF_IDS, gids=_RUN_OF_IDS), REFUSED),
    "selinux_options.user": ("user_u", CHANGED),
    "selinux_options.role": ("role_r", CHANGED),
    "selinux_options.type": ("type_t", CHANGED),
    "selinux_options.level": ("s0:c1", CHANGED),
    "run_as_user": (7, CHANGED),
    "run_as_group": (7, CHANGED),
    "readonly_rootfs": (True, CHANGED),
    "supplemental_groups": ((7,), CHANGED),
    "supplemental_groups_policy": (SupplementalGroupsPolicy.Strict, "who it is, by container_identity"),
    "seccomp.profile_type": (ProfileType.Unconfined, CHANGED),
    "seccomp.localhost_ref": ("/profile.json", REFUSED),  # the type says that there is none
    "apparmor.profile_type": (ProfileType.Unconfined, CHANGED),
    "apparmor.localhost_ref": ("profile", REFUSED),
    "seccomp_profile_path": ("localhost/relative", REFUSED),
}
"""What both security contexts have: a value other than the one below, and what becomes of it."""

CONTAINER: dict[str, tuple[Any, str]] = {
    "metadata.name": ("other", "the engine's name, by container_create"),
    "metadata.attempt": (7, "the engine's name, by container_create"),
    "image": (ImageSpec(image="other"), "its id, by container_create"),
    "command": (("true",), CHANGED),
    "args": (("1",), CHANGED),
    "working_dir": ("/srv", CHANGED),
    "envs.key": ("B", CHANGED),
    "envs.value": ("2", CHANGED),
    "mounts.container_path": ("/other", CHANGED),
    "mounts.host_path": ("/dev", CHANGED),
    "mounts.readonly": (False, CHANGED),
    "mounts.selinux_relabel": (True, REFUSED),
    "mounts.propagation": (MountPropagation.PROPAGATION_BIDIRECTIONAL, CHANGED),
    "mounts.uid_mappings": (_RUN_OF_IDS, REFUSED),
    "mounts.gid_mappings": (_RUN_OF_IDS, REFUSED),
    "mounts.recursive_read_only": (True, CHANGED),
    "mounts.image": (ImageSpec(image="other"), REFUSED),
    "mounts.image_sub_path": ("folder", REFUSED),
    "mounts.mount_options": (("noexec",), REFUSED),
    "devices.container_path": ("/dev/y", CHANGED),
    "devices.host_path": ("/dev/zero", CHANGED),
    "devices.permissions": ("r", CHANGED),
    "labels": ({"other": "1"}, CHANGED),
    "annotations": ({"other": "1"}, CHANGED),
    "log_path": ("other.log", "the log's path, by runtime.logs"),
    "stdin": (False, CHANGED),
    "stdin_once": (True, CHANGED),
    "tty": (True, CHANGED),
    "cdi_devices.name": ("vendor.example/class=other", CHANGED),
    "stop_signal": (Signal.SIGNAL_SIGQUIT, CHANGED),
    "linux.resources.cpu_period": (50_000, CHANGED),
    "linux.resources.cpu_quota": (20_000, CHANGED),
    "linux.resources.cpu_shares": (7, CHANGED),
    "linux.resources.memory_limit_in_bytes": (32 << 20, CHANGED),
    "linux.resources.oom_score_adj": (7, CHANGED),
    "linux.resources.cpuset_cpus": ("0", CHANGED),
    "linux.resources.cpuset_mems": ("0", CHANGED),
    "linux.resources.hugepage_limits": ((HugepageLimit(page_size="2MB", limit=1),), REFUSED),
    "linux.resources.unified": ({"memory.high": "1"}, REFUSED),
    "linux.resources.memory_swap_limit_in_bytes": (128 << 20, CHANGED),
} | {
    f"linux.security_context.{name}": value
    for name, value in (
        _CONTEXT
        | {
            "namespace_options.network": (NamespaceMode.NODE, REFUSED),  # is the pod's
            "namespace_options.ipc": (NamespaceMode.NODE, REFUSED),
            "capabilities.add_capabilities": (("NET_ADMIN",), CHANGED),
            "capabilities.drop_capabilities": (("KILL",), CHANGED),
            "capabilities.add_ambient_capabilities": (("KILL",), REFUSED),
            "privileged": (True, CHANGED),
            "run_as_username": ("nobody", REFUSED),  # beside an id
            "no_new_privs": (True, CHANGED),
            "masked_paths": (("/proc/kcore",), CHANGED),
            "readonly_paths": (("/proc/sys",), CHANGED),
            "apparmor_profile": ("relative", REFUSED),
        }
    ).items()
}
"""Every field of ContainerConfig: a value, and what becomes of it, or who carries it."""

SANDBOX: dict[str, tuple[Any, str]] = {
    "metadata.name": ("other", CHANGED),
    "metadata.uid": ("other", CHANGED),
    "metadata.namespace": ("other", CHANGED),
    "metadata.attempt": (7, "the engine's name, by sandbox_run"),
    "hostname": ("other", CHANGED),
    "log_directory": ("/var/log", "the place of the containers' logs, by container_create"),
    "dns_config": (DNSConfig(servers=("192.0.2.1",)), "the file itself, by resolv_conf"),
    "port_mappings": ((PortMapping(container_port=80),), "the network, by attachment"),
    "labels": ({"other": "1"}, CHANGED),
    "annotations": ({"other": "1"}, CHANGED),
    "linux.cgroup_parent": ("/pods/1", CHANGED),
    "linux.sysctls": ({"net.ipv4.ip_forward": "1"}, CHANGED),
    "linux.overhead": (LinuxContainerResources(cpu_shares=7), "the record; the kubelet writes the pod's cgroup"),
    "linux.resources": (LinuxContainerResources(cpu_shares=7), "the record; the kubelet writes the pod's cgroup"),
    "linux.security_context.privileged": (True, "what containers of the pod may ask for"),
} | {f"linux.security_context.{name}": value for name, value in _CONTEXT.items()}
"""Every field of PodSandboxConfig."""

INSTEAD = {"seccomp_profile_path": "seccomp", "apparmor_profile": "apparmor"}
"""Deprecated fields, and the field that wins over them: absent while they are tried."""
WHOLE = {"image", "uid_mappings", "gid_mappings", "hugepage_limits", "userns_options", "dns_config", "port_mappings"}
WHOLE |= {"overhead"}
"""Fields that are one thing for these tests."""


def context() -> dict[str, Any]:
    return {
        "namespace_options": NamespaceOption(),
        "selinux_options": SELinuxOption(),
        "run_as_user": 1,
        "run_as_group": 1,
        "seccomp": SecurityProfile(),
        "apparmor": SecurityProfile(),
    }


def plain_container(folder: Path) -> ContainerConfig:
    return ContainerConfig(
        metadata=ContainerMetadata(name="main"),
        image=ImageSpec(image="busybox"),
        envs=(KeyValue(key="A", value="1"),),
        mounts=(Mount(container_path="/data", host_path=str(folder), readonly=True),),
        devices=(Device(container_path="/dev/x", host_path="/dev/null"),),
        cdi_devices=(CDIDevice(name="vendor.example/class=one"),),
        stdin=True,
        linux=LinuxContainerConfig(
            resources=LinuxContainerResources(memory_limit_in_bytes=64 << 20),
            security_context=LinuxContainerSecurityContext(capabilities=Capability(), **context()),
        ),
    )


def plain_sandbox() -> PodSandboxConfig:
    return PodSandboxConfig(
        metadata=PodSandboxMetadata(name="web", uid="u", namespace="ns"),
        linux=LinuxPodSandboxConfig(security_context=LinuxSandboxSecurityContext(**context())),
    )


def leaves(value: object, path: str = "") -> Iterator[str]:
    """The ways to all fields of a value that holds at least one of everything."""
    assert dataclasses.is_dataclass(value)
    for field in dataclasses.fields(value):
        inner = getattr(value, field.name)
        inner = inner[0] if isinstance(inner, tuple) and inner else inner
        way = f"{path}{field.name}"
        if dataclasses.is_dataclass(inner) and field.name not in WHOLE:
            yield from leaves(inner, f"{way}.")
        else:
            yield way


def put(value: Any, path: str, new: object) -> Any:
    """The value with the field at the end of the path replaced; of a tuple the first item."""
    if isinstance(value, tuple):
        return (put(value[0], path, new), *value[1:])
    name, _, rest = path.partition(".")
    return dataclasses.replace(value, **{name: put(getattr(value, name), rest, new) if rest else new})


def outcome(make: Make, before: Any, path: str, new: object) -> str:
    """What becomes of the field; the label that repeats the whole request does not count."""
    parent, _, name = path.rpartition(".")
    if name in INSTEAD:
        before = put(before, f"{parent}.{INSTEAD[name]}", None)
    try:
        specs = [make(before), make(put(before, path, new))]
    except CRIError:
        make(before)  # the plain one is not what is refused
        return REFUSED
    for number, spec in enumerate(specs):
        specs[number] = dataclasses.replace(spec, labels={k: v for k, v in spec.labels.items() if k != CONFIG})
    return CHANGED if specs[0] != specs[1] else "dropped"


@pytest.fixture
def able(facts: EngineFacts) -> EngineFacts:
    """An engine and kernel with everything that can be asked for."""
    return dataclasses.replace(facts, security=frozenset({"seccomp", "apparmor", "selinux"}), cdi=True)


@pytest.fixture
def make_container(able: EngineFacts, make_sandbox: Callable[..., Sandbox]) -> Make:
    privileged = LinuxPodSandboxConfig(security_context=LinuxSandboxSecurityContext(privileged=True))
    sandbox = make_sandbox(config={"linux": privileged})
    return lambda config: make_container_spec(
        config,
        sandbox,
        image="sha256:1",
        log_path="",
        target_in_pod=lambda target: target,
        facts=able,
        host=Host(),
        settings=RuntimeSettings(),
    )


@pytest.fixture
def make_pod(able: EngineFacts) -> Make:
    return lambda config: make_sandbox_spec(
        config, "", image="sha256:1", facts=able, host=Host(), settings=RuntimeSettings()
    )


def test_every_field_is_placed(tmp_path: Path) -> None:
    assert set(leaves(plain_container(tmp_path))) == CONTAINER.keys()
    assert set(leaves(plain_sandbox())) == SANDBOX.keys()


@pytest.mark.parametrize("path", [path for path, (_, fate) in CONTAINER.items() if fate in (CHANGED, REFUSED)])
def test_a_containers_field(make_container: Make, path: str, tmp_path: Path) -> None:
    value, fate = CONTAINER[path]
    assert outcome(make_container, plain_container(tmp_path), path, value) == fate


@pytest.mark.parametrize("path", [path for path, (_, fate) in SANDBOX.items() if fate in (CHANGED, REFUSED)])
def test_a_pods_field(make_pod: Make, path: str) -> None:
    value, fate = SANDBOX[path]
    assert outcome(make_pod, plain_sandbox(), path, value) == fate


def test_what_is_dropped_would_be_noticed(make_container: Make, tmp_path: Path) -> None:
    """By the fields that others carry, which look dropped from here."""
    for path in ("metadata.attempt", "log_path"):
        assert outcome(make_container, plain_container(tmp_path), path, CONTAINER[path][0]) == "dropped"
