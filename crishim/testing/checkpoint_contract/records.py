"""Records for checks: one in which every field says something, so that a field that is lost is noticed."""

from __future__ import annotations

import hashlib

from crishim.checkpoint.record import Carrier, ContainerRecord, Phase, SandboxRecord
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
    Protocol,
    SecurityProfile,
    SELinuxOption,
    Signal,
    SupplementalGroupsPolicy,
    UserNamespace,
)
from crishim.network.api import Attached


def make_id(name: str) -> str:
    """An id like an engine's, always the same for a name."""
    return hashlib.sha256(name.encode()).hexdigest()


def make_record(name: str, *, revision: int = 0, containers: int = 1, phase: Phase = Phase.READY) -> SandboxRecord:
    """The record of a sandbox. `revision` marks several fields far apart, so that a mixture of two records shows."""
    members = [_container(f"{name}-{number}", revision) for number in range(containers)]
    return SandboxRecord(
        id=make_id(name),
        phase=phase,
        config=_sandbox_config(name, revision),
        runtime_handler="runc",
        created_at=1_700_000_000_000_000_001 + revision,
        netns_path=f"/run/netns/crishim-{name}",
        image_ref=f"sha256:{make_id('image')}",
        started_at=1_700_000_000_000_000_002,
        network=Attached(
            backend="cni",
            config='{"cniVersion": "1.0.0", "name": "net"}',
            args='{"K8S_POD_NAME": "x"}',
            interface="eth1",
            result=f'{{"ips": [], "revision": {revision}}}',
            ips=("10.0.0.7", "fd00::7"),
        ),
        containers={member.id: member for member in members},
        overhead=_resources(revision + 1),
        resources=_resources(revision),
        carrier=Carrier.ANCHORED,
        object_id=make_id(f"object of {name}"),
    )


def revision_of(record: SandboxRecord) -> int:
    """The revision that `make_record` was called with. Raises ValueError for a mixture of several."""
    found = {
        record.created_at - 1_700_000_000_000_000_001,
        int(record.config.labels["revision"]),
        record.resources.unified["revision"] if record.resources else -1,
        *(int(container.config.annotations["revision"]) for container in record.containers.values()),
    }
    numbers = {int(number) for number in found}
    if len(numbers) != 1 or record != make_record(
        record.config.hostname, revision=min(numbers), containers=len(record.containers), phase=record.phase
    ):
        raise ValueError(f"a mixture of revisions {sorted(numbers)}")
    return numbers.pop()


def _resources(revision: int) -> LinuxContainerResources:
    return LinuxContainerResources(
        cpu_period=100_000,
        cpu_quota=50_000,
        cpu_shares=512,
        memory_limit_in_bytes=64 << 20,
        oom_score_adj=-5,
        cpuset_cpus="0-1",
        cpuset_mems="0",
        hugepage_limits=(HugepageLimit(page_size="2MB", limit=1 << 21),),
        unified={"memory.high": "1", "revision": str(revision)},
        memory_swap_limit_in_bytes=1 << 30,
    )


def _mapping() -> tuple[IDMapping, ...]:
    return (IDMapping(host_id=100_000, container_id=1, length=65_536),)


def _namespaces() -> NamespaceOption:
    return NamespaceOption(
        network=NamespaceMode.NODE,
        pid=NamespaceMode.TARGET,
        ipc=NamespaceMode.NODE,
        target_id=make_id("target"),
        userns_options=UserNamespace(mode=NamespaceMode.NODE, uids=_mapping(), gids=_mapping()),
    )


def _selinux() -> SELinuxOption:
    return SELinuxOption(user="u", role="r", type="t", level="s0")


def _profile() -> SecurityProfile:
    return SecurityProfile(profile_type=ProfileType.Localhost, localhost_ref="/profiles/x.json")


def _sandbox_config(name: str, revision: int) -> PodSandboxConfig:
    return PodSandboxConfig(
        metadata=PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="default", attempt=3),
        hostname=name,
        log_directory=f"/var/log/pods/{name}",
        dns_config=DNSConfig(servers=("10.0.0.10",), searches=("svc.local",), options=("ndots:5",)),
        port_mappings=(PortMapping(protocol=Protocol.SCTP, container_port=80, host_port=8080, host_ip="127.0.0.1"),),
        labels={"app": "ä b=c", "empty": "", "revision": str(revision)},
        annotations={"annotation.x": '{"json": [1]}', "": "nameless"},
        linux=LinuxPodSandboxConfig(
            cgroup_parent="/kubepods/pod1",
            security_context=LinuxSandboxSecurityContext(
                namespace_options=_namespaces(),
                selinux_options=_selinux(),
                run_as_user=1000,
                run_as_group=0,
                readonly_rootfs=True,
                supplemental_groups=(1, 2),
                supplemental_groups_policy=SupplementalGroupsPolicy.Strict,
                privileged=True,
                seccomp=_profile(),
                apparmor=_profile(),
                seccomp_profile_path="runtime/default",
            ),
            sysctls={"net.core.somaxconn": "1024"},
            overhead=_resources(revision + 2),
            resources=_resources(revision),
        ),
    )


def _container(name: str, revision: int) -> ContainerRecord:
    image = ImageSpec(
        image=f"sha256:{make_id('image')}",
        annotations={"a": "b"},
        user_specified_image="busybox:latest",
        runtime_handler="runc",
        image_ref=f"sha256:{make_id('image')}",
    )
    return ContainerRecord(
        id=make_id(name),
        config=ContainerConfig(
            metadata=ContainerMetadata(name=name, attempt=1),
            image=image,
            command=("sh", "-c"),
            args=("sleep 1\n", ""),
            working_dir="/work",
            envs=(KeyValue(key="PASSWORD", value="secret-value"), KeyValue(key="EMPTY", value="")),
            mounts=(
                Mount(
                    container_path="/data",
                    host_path="/srv",
                    readonly=True,
                    selinux_relabel=True,
                    propagation=MountPropagation.PROPAGATION_BIDIRECTIONAL,
                    uid_mappings=_mapping(),
                    gid_mappings=_mapping(),
                    recursive_read_only=True,
                    image=image,
                    image_sub_path="sub",
                    mount_options=("noexec",),
                ),
            ),
            devices=(Device(container_path="/dev/x", host_path="/dev/null", permissions="rw"),),
            labels={"role": "test"},
            annotations={"revision": str(revision)},
            log_path=f"{name}/0.log",
            stdin=True,
            stdin_once=True,
            tty=True,
            linux=LinuxContainerConfig(
                resources=_resources(revision),
                security_context=LinuxContainerSecurityContext(
                    capabilities=Capability(
                        add_capabilities=("NET_ADMIN",),
                        drop_capabilities=("ALL",),
                        add_ambient_capabilities=("CAP_CHOWN",),
                    ),
                    privileged=True,
                    namespace_options=_namespaces(),
                    selinux_options=_selinux(),
                    run_as_user=0,
                    run_as_group=5,
                    run_as_username="nobody",
                    readonly_rootfs=True,
                    supplemental_groups=(3,),
                    supplemental_groups_policy=SupplementalGroupsPolicy.Strict,
                    no_new_privs=True,
                    masked_paths=("/proc/kcore",),
                    readonly_paths=("/proc/sys",),
                    seccomp=_profile(),
                    apparmor=_profile(),
                    apparmor_profile="localhost/x",
                    seccomp_profile_path="unconfined",
                ),
            ),
            cdi_devices=(CDIDevice(name="vendor.com/gpu=0"),),
            stop_signal=Signal.SIGNAL_SIGQUIT,
        ),
        image_ref=f"sha256:{make_id('image')}",
        created_at=1_700_000_000_000_000_003,
        resources=_resources(revision),
        oom_score_adj=-7,
        log_position=(4711, 1 << 40),
        log_mark=(1 << 32) - 1,
        log_file=(4712, -1),
        log_complete=True,
    )
