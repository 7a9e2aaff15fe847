"""All that an engine is told about a sandbox and about a container."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from crishim.engine.values import ContainerSpec, EngineFacts, LogSpool
from crishim.errors import InvalidArgument, UnknownRuntimeHandler
from crishim.model import (
    Capability,
    ContainerConfig,
    ContainerMetadata,
    ImageSpec,
    KeyValue,
    LinuxContainerConfig,
    LinuxContainerResources,
    LinuxContainerSecurityContext,
    LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext,
    NamespaceMode,
    NamespaceOption,
    PodSandboxConfig,
    PodSandboxMetadata,
    ProfileType,
    SecurityProfile,
    Signal,
)
from crishim.runtime.core import RuntimeSettings
from crishim.runtime.host import Host
from crishim.runtime.labels import make_container_labels, make_sandbox_labels
from crishim.runtime.objects import Sandbox
from crishim.runtime.spec.container import make_container_spec, make_env, make_log_path
from crishim.runtime.spec.sandbox import check_metadata, make_runtime, make_sandbox_spec, net_sysctls

POD = PodSandboxMetadata(name="web", uid="u", namespace="ns")
SETTINGS = RuntimeSettings(shm_size=1 << 20, log_spool_size=2 << 20, log_spool_files=3, pids_limit=50)


# --- sandbox


def sandbox_spec(facts: EngineFacts, handler: str = "", host: Host | None = None, **config: Any) -> ContainerSpec:
    given: dict[str, Any] = {"metadata": POD, "hostname": "web"} | config
    asked = PodSandboxConfig(**given)
    return make_sandbox_spec(asked, handler, image="sha256:1", facts=facts, host=host or Host(), settings=SETTINGS)


def secure(**values: Any) -> LinuxPodSandboxConfig:
    return LinuxPodSandboxConfig(security_context=LinuxSandboxSecurityContext(**values))


def test_a_plain_sandbox_leaves_nothing_to_the_daemon(facts: EngineFacts) -> None:
    assert sandbox_spec(facts) == ContainerSpec(
        image="sha256:1",
        labels=make_sandbox_labels(PodSandboxConfig(metadata=POD, hostname="web"), ""),
        hostname="web",
        runtime="runc",
        network_mode="none",
        ipc_mode="shareable",
        cgroupns_mode="private",
        seccomp="unconfined",
        shm_size=1 << 20,
        oom_score_adj=-998,
        log_spool=LogSpool(max_size=1 << 20, max_files=1),
    )


@pytest.mark.parametrize(
    ("linux", "told"),
    [
        (secure(run_as_user=65535, run_as_group=65534), {"user": "65535:65534"}),
        (secure(readonly_rootfs=True), {"readonly_rootfs": True}),
        (secure(supplemental_groups=(5,)), {"groups": (5,)}),
        (secure(seccomp=SecurityProfile(profile_type=ProfileType.RuntimeDefault)), {"seccomp": None}),
        (secure(privileged=True), {"privileged": True, "cgroupns_mode": "private"}),
        (LinuxPodSandboxConfig(cgroup_parent="/kubepods/x"), {"cgroup_parent": "/kubepods/x"}),
        (LinuxPodSandboxConfig(sysctls={"net.ipv4.ip_forward": "1"}), {"sysctls": {"net.ipv4.ip_forward": "1"}}),
        (
            secure(namespace_options=NamespaceOption(network=NamespaceMode.NODE)),
            {"network_mode": "host", "uts_mode": "host", "hostname": ""},
        ),
    ],
)
def test_sandbox_fields(facts: EngineFacts, linux: LinuxPodSandboxConfig, told: dict[str, Any]) -> None:
    spec = sandbox_spec(facts, linux=linux)
    assert {name: getattr(spec, name) for name in told} == told


def test_an_empty_hostname_is_the_engines_choice(facts: EngineFacts) -> None:
    assert sandbox_spec(facts, hostname="").hostname == ""


def test_the_oom_score_is_clamped(facts: EngineFacts) -> None:
    assert sandbox_spec(facts, host=Host(oom_floor=-100)).oom_score_adj == -100


NODE_IPC = secure(namespace_options=NamespaceOption(ipc=NamespaceMode.NODE))
NODE_NET = secure(namespace_options=NamespaceOption(network=NamespaceMode.NODE))


def with_sysctls(linux: LinuxPodSandboxConfig, **sysctls: str) -> LinuxPodSandboxConfig:
    return dataclasses.replace(linux, sysctls={key.replace("__", "."): value for key, value in sysctls.items()})


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"metadata": None}, "config.metadata"),
        ({"metadata": PodSandboxMetadata(uid="u", namespace="n")}, "config.metadata.name"),
        ({"metadata": PodSandboxMetadata(name="n", namespace="n")}, "config.metadata.uid"),
        ({"metadata": PodSandboxMetadata(name="a/b", uid="u")}, "config.metadata.name"),
        ({"metadata": PodSandboxMetadata(name="a", uid="u", namespace="ä")}, "config.metadata.namespace"),
        ({"hostname": "x" * 65}, "config.hostname"),
        ({"linux": secure(run_as_group=1)}, "config.linux.security_context.run_as_group"),
        ({"linux": LinuxPodSandboxConfig(cgroup_parent="/../x")}, "config.linux.cgroup_parent"),
        ({"linux": with_sysctls(NODE_NET, net__core__somaxconn="1")}, "config.linux.sysctls[net.core.somaxconn]"),
        ({"linux": with_sysctls(NODE_IPC, kernel__shmmax="1")}, "config.linux.sysctls[kernel.shmmax]"),
        ({"linux": with_sysctls(NODE_IPC, fs__mqueue__msg_max="1")}, "config.linux.sysctls[fs.mqueue.msg_max]"),
        ({"linux": with_sysctls(secure(), vm__swappiness="1")}, "config.linux.sysctls[vm.swappiness]"),
        ({"linux": with_sysctls(secure(), kernel__hostname="x")}, "config.linux.sysctls[kernel.hostname]"),
    ],
    ids=str,
)
def test_sandbox_refused(facts: EngineFacts, config: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        sandbox_spec(facts, **config)
    assert caught.value.field == field


def test_ipc_settings_of_the_pods_own(facts: EngineFacts) -> None:
    linux = with_sysctls(NODE_NET, kernel__shm_rmid_forced="1", kernel__msgmax="1", kernel__sem="1 2 3 4")
    assert len(sandbox_spec(facts, linux=linux).sysctls) == 3


def test_net_settings_are_told_apart() -> None:
    config = PodSandboxConfig(linux=LinuxPodSandboxConfig(sysctls={"net/x/y": "1", "net.a": "2", "kernel.sem": "3"}))
    assert net_sysctls(config) == {"net/x/y": "1", "net.a": "2"}
    assert net_sysctls(PodSandboxConfig()) == {}


def test_a_pod_without_namespace_is_one_of_crictl() -> None:
    check_metadata(PodSandboxConfig(metadata=PodSandboxMetadata(name="a_b", uid="u")))


def test_handlers(facts: EngineFacts) -> None:
    facts = dataclasses.replace(facts, runtimes=("runc", "runsc"), default_runtime="runc")
    assert [make_runtime(handler, facts) for handler in ("", "runc", "runsc")] == ["runc", "runc", "runsc"]
    with pytest.raises(UnknownRuntimeHandler, match=r"kata.*runc, runsc"):
        make_runtime("kata", facts)
    fronted = dataclasses.replace(facts, twins={"runc": "/front/crishim-runc"})
    with pytest.raises(UnknownRuntimeHandler, match="own front of the runtime 'runc', which is the handler to name"):
        make_runtime("crishim-runc", fronted)


# --- container


MakeSpec = Callable[..., ContainerSpec]


@pytest.fixture
def container_spec(facts: EngineFacts, make_sandbox: Callable[..., Sandbox]) -> MakeSpec:
    def make(pod: LinuxPodSandboxConfig | None = None, security: dict[str, Any] | None = None, **config: Any) -> Any:
        if security is not None:
            config["linux"] = LinuxContainerConfig(security_context=LinuxContainerSecurityContext(**security))
        asked: dict[str, Any] = {
            "metadata": ContainerMetadata(name="main"),
            "image": ImageSpec(image="busybox"),
        } | config
        return make_container_spec(
            ContainerConfig(**asked),
            make_sandbox(config={"linux": pod}),
            image="sha256:1",
            log_path="/var/log/x.log",
            target_in_pod=lambda target: target,
            facts=facts,
            host=Host(),
            settings=SETTINGS,
        )

    return make


def test_a_plain_container_leaves_nothing_to_the_daemon(container_spec: MakeSpec) -> None:
    config = ContainerConfig(metadata=ContainerMetadata(name="main"), image=ImageSpec(image="busybox"))
    spec = container_spec()
    assert spec.labels == make_container_labels(config, "s1", "/var/log/x.log")
    resources = spec.resources
    assert (resources.memory, resources.memory_swap, resources.cpu_shares, resources.pids_limit) == (0, 0, 0, 50)
    assert dataclasses.replace(
        spec, resources=ContainerSpec(image="", labels={}).resources, labels={}
    ) == ContainerSpec(
        image="sha256:1",
        labels={},
        runtime="runc",
        network_mode="container:s1",
        ipc_mode="container:s1",
        pid_mode="container:s1",
        cgroupns_mode="private",
        seccomp="unconfined",
        masked_paths=(),
        readonly_paths=(),
        shm_size=1 << 20,
        log_spool=LogSpool(max_size=2 << 20, max_files=3),
    )


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"command": ("a",), "args": ("b",)}, {"entrypoint": ("a",), "command": ("b",)}),
        ({"args": ("b",)}, {"entrypoint": (), "command": ("b",)}),
        ({"working_dir": "/w"}, {"working_dir": "/w"}),
        ({"envs": (KeyValue(key="A", value="1=2"), KeyValue(key="B"))}, {"env": (("A", "1=2"), ("B", ""))}),
        ({"tty": True, "stdin": True}, {"tty": True, "stdin": True, "stdin_once": False}),
        ({"stdin": True, "stdin_once": True}, {"stdin": True, "stdin_once": True}),
        ({"stdin_once": True}, {"stdin": False, "stdin_once": False}),
        ({"stop_signal": Signal.SIGNAL_SIGUSR1}, {"stop_signal": "SIGUSR1"}),
        ({"security": {"run_as_user": 1, "run_as_group": 2}}, {"user": "1:2"}),
        ({"security": {"run_as_username": "www"}}, {"user": "www"}),
        ({"security": {"no_new_privs": True}}, {"no_new_privileges": True}),
        ({"security": {"readonly_rootfs": True}}, {"readonly_rootfs": True}),
        ({"security": {"masked_paths": ("/proc/x",)}}, {"masked_paths": ("/proc/x",), "readonly_paths": ()}),
        ({"security": {"supplemental_groups": (7,)}}, {"groups": (7,)}),
        (
            {"security": {"capabilities": Capability(add_capabilities=("CHOWN",), drop_capabilities=("ALL",))}},
            {"cap_add": ("CAP_CHOWN",), "cap_drop": ("ALL",)},
        ),
        ({"security": {"seccomp": SecurityProfile()}}, {"seccomp": None}),
        ({"security": {"namespace_options": NamespaceOption(pid=NamespaceMode.CONTAINER)}}, {"pid_mode": ""}),
        (
            {"linux": LinuxContainerConfig(resources=LinuxContainerResources(oom_score_adj=999))},
            {"oom_score_adj": 999},
        ),
        ({"pod": LinuxPodSandboxConfig(cgroup_parent="/kubepods/x")}, {"cgroup_parent": "/kubepods/x"}),
        ({"pod": NODE_NET}, {"network_mode": "container:s1", "uts_mode": "host"}),
    ],
    ids=str,
)
def test_container_fields(container_spec: MakeSpec, config: dict[str, Any], told: dict[str, Any]) -> None:
    spec = container_spec(**config)
    assert {name: getattr(spec, name) for name in told} == told


def test_privileged_overrides(container_spec: MakeSpec) -> None:
    security = {
        "privileged": True,
        "capabilities": Capability(add_capabilities=("CHOWN",), drop_capabilities=("KILL",)),
        "masked_paths": ("/x",),
        "readonly_paths": ("/y",),
        "seccomp": SecurityProfile(),
    }
    spec = container_spec(pod=secure(privileged=True), security=security)
    assert spec.privileged
    assert (spec.cap_add, spec.cap_drop, spec.masked_paths, spec.readonly_paths) == ((), (), (), ())
    assert (spec.seccomp, spec.cgroupns_mode) == ("unconfined", "host")


CONTEXT = "config.linux.security_context"


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"security": {"privileged": True}}, f"{CONTEXT}.privileged"),
        ({"security": {"run_as_user": 1, "run_as_username": "x"}}, f"{CONTEXT}.run_as_username"),
        ({"security": {"namespace_options": NamespaceOption(network=NamespaceMode.NODE)}},
         f"{CONTEXT}.namespace_options.network"),
        ({"linux": LinuxContainerConfig(resources=LinuxContainerResources(cpu_shares=-1))},
         "config.linux.resources.cpu_shares"),
        ({"envs": (KeyValue(key="A"), KeyValue(key=""))}, "config.envs[1].key"),
    ],
    ids=str,
)  # fmt: skip
def test_container_refused(container_spec: MakeSpec, config: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        container_spec(**config)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("env", "field"),
    [
        (KeyValue(key="A=B"), "f[0].key"),
        (KeyValue(key="A\0"), "f[0].key"),
        (KeyValue(key="A", value="\0"), "f[0].value"),
    ],
)
def test_env_is_exact_or_refused(env: KeyValue, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make_env([env], "f")
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("folder", "path", "made"),
    [
        ("/var/log/pods/x", "main/0.log", "/var/log/pods/x/main/0.log"),
        ("/var/log/pods/x/", "main/../0.log", "/var/log/pods/x/0.log"),
        ("/", "0.log", "/0.log"),
        ("", "0.log", ""),
        ("/var/log", "", ""),
    ],
)
def test_log_path(folder: str, path: str, made: str) -> None:
    assert make_log_path(folder, path) == made


@pytest.mark.parametrize(
    ("folder", "path", "field"),
    [
        ("var/log", "0.log", "sandbox_config.log_directory"),
        ("/var/log/x", "../y/0.log", "config.log_path"),
        ("/var/log/x", "/etc/passwd", "config.log_path"),
        ("/var/log/x", ".", "config.log_path"),
        ("/var/log/x", "a/..", "config.log_path"),
    ],
)
def test_log_path_stays_in_the_pods_folder(folder: str, path: str, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make_log_path(folder, path)
    assert caught.value.field == field
