"""What becomes of each field that a pod, a container or an update can ask for: one table.

A path is that of the wire's own names, from the request's message down. What is said of a message holds for all that is
in it. `tests/unit/docs/test_fields_page.py` walks the messages' descriptors, so that no field is missing here, and
`tests/component/test_fields_refused.py` sends what is refused. The page of it is docs/fields.md (`fields_page`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from crishim.engine.features import Feature
from crishim.errors import CRIError, ImageVolumeMountFailed, InvalidArgument, RROUnsupported, UnsupportedField

MESSAGES = (
    "PodSandboxConfig",
    "ContainerConfig",
    "UpdateContainerResourcesRequest",
    "UpdatePodSandboxResourcesRequest",
)
"""The messages whose fields are listed."""


class Node(enum.Enum):
    """What depends on the node and not on the engine's version."""

    APPARMOR = "AppArmor in the kernel"
    SELINUX = "SELinux switched on in the engine"
    NO_SELINUX = "SELinux switched off in the engine"
    LAYERS = "the storage driver overlay2, and mounts that the engine sees"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field, or a message with all its fields."""

    path: str
    note: str = ""
    """How it is carried out, or why it is not."""
    proof: str = ""
    """The test that reads it back; empty where it is refused everywhere."""
    needs: Feature | Node | None = None
    """Without it, the field is refused."""
    unless: Feature | None = None
    """With it, nothing else is needed."""
    front: str = ""
    """The runtime's front (`crishim install-runtime`) carries it where the engine cannot; what else that needs, or
    `FRONT` for nothing else. Empty: no front helps."""
    error: type[CRIError] | None = None
    """With this it is refused, where it is."""
    kept: bool = False
    """By CRI it changes nothing here: it is remembered and told, or only there for somebody else."""

    @property
    def refused(self) -> bool:
        """Whether it is refused on every node."""
        return self.error is not None and self.needs is None and not self.front


_INT = "tests/integration/server/"
_PROCESS, _POD = f"{_INT}test_fields_process.py::", f"{_INT}test_fields_pod.py::"
_FULL, _IMAGES = f"{_INT}test_fields_fullest.py::", f"{_INT}test_fields_image.py::"
_FULLEST = f"{_FULL}test_the_fullest_container"
_FRONT = f"{_INT}test_front_fields.py::"
_USERS = f"{_INT}test_user_namespaces.py::test_root_inside_is_nobody_outside"
_VM = "tests/vm/"
FRONT = "the front"


def _under(prefix: str, *fields: Field) -> Iterator[Field]:
    for field in fields:
        yield Field(
            path=f"{prefix}.{field.path}",
            note=field.note,
            proof=field.proof,
            needs=field.needs,
            unless=field.unless,
            front=field.front,
            error=field.error,
            kept=field.kept,
        )


def _is(path: str, proof: str, note: str = "") -> Field:
    return Field(path=path, proof=proof, note=note)


def _kept(path: str, proof: str, note: str) -> Field:
    return Field(path=path, proof=proof, note=note, kept=True)


def _no(path: str, note: str, error: type[CRIError] = UnsupportedField) -> Field:
    return Field(path=path, note=note, error=error)


def _where(
    path: str, needs: Feature | Node, error: type[CRIError], proof: str, note: str = "", front: str = ""
) -> Field:
    return Field(path=path, needs=needs, error=error, proof=proof, note=note, front=front)


def _front(path: str, proof: str, note: str = "", *, needs: str = FRONT) -> Field:
    return Field(path=path, note=note, proof=proof, front=needs, error=UnsupportedField)


def _of_images(path: str, note: str) -> Field:
    return Field(
        path=path,
        needs=Node.LAYERS,
        unless=Feature.IMAGE_MOUNTS,
        error=ImageVolumeMountFailed,
        proof=f"{_IMAGES}test_image_volumes",
        note=note,
    )


_WINDOWS = _no("windows", "for nodes that run Windows", InvalidArgument)


def _selinux(proof: str) -> Field:
    note = "the four parts as label options; all empty is none. Not tried on a node that has it"
    return _where("selinux_options", Node.SELINUX, UnsupportedField, proof, note)


def _apparmor(where: str = "") -> Field:
    note = f"RuntimeDefault, Unconfined, or a loaded profile; without AppArmor only Localhost is refused{where}"
    return _where("apparmor", Node.APPARMOR, UnsupportedField, f"{_VM}test_apparmor.py::test_spec", note)


_USERNS = _front(
    "namespace_options.userns_options",
    _USERS,
    "the host's (NODE) is taken everywhere; a pod's own with PID namespaces of the containers, and not with the host's",
    needs="Linux 5.19 and overlays as root file systems",
)
_UNIFIED = _front(
    "unified",
    f"{_VM}test_front.py::test_files_of_the_cgroup",
    "files of the container's cgroup, but those that begin with `cgroup.`",
    needs="cgroup version 2",
)
_HUGEPAGES = _front(
    "hugepage_limits",
    f"{_VM}test_front.py::test_huge_pages",
    "a limit of 0, which kubelets send for every size, is taken everywhere: the pod's cgroup has it, which the kubelet "
    "writes",
    needs="cgroups that limit huge pages",
)

POD = (
    *_under(
        "PodSandboxConfig",
        _is("metadata", f"{_PROCESS}test_identity_is_given_back", "the engine's name of the sandbox"),
        _is("hostname", f"{_POD}test_names", "one for the pod; with host network the node's, whatever is asked"),
        _is("log_directory", f"{_INT}test_logs.py::test_what_is_printed_is_in_the_log"),
        _is("dns_config", f"{_POD}test_names", "/etc/resolv.conf of all containers; absent: the engine's"),
        _is("port_mappings", f"{_INT}test_network.py::test_addresses_and_ports", "needs a pod network"),
        _is("labels", f"{_PROCESS}test_identity_is_given_back"),
        _is("annotations", f"{_PROCESS}test_identity_is_given_back"),
        _WINDOWS,
    ),
    *_under(
        "PodSandboxConfig.linux",
        _is("cgroup_parent", f"{_POD}test_cgroup_parent", "the slice's name with the systemd driver"),
        _is("sysctls", f"{_POD}test_sysctls", "those of the pod's own network and IPC namespaces"),
        _kept("overhead", f"{_FULL}test_pod_resources_are_remembered", "the kubelet writes the pod's cgroup"),
        _kept("resources", f"{_FULL}test_pod_resources_are_remembered", "the kubelet writes the pod's cgroup"),
    ),
    *_under(
        "PodSandboxConfig.linux.security_context",
        _is("namespace_options.network", f"{_POD}test_namespaces_of_the_node", "POD or NODE"),
        _is("namespace_options.pid", f"{_POD}test_namespaces_of_the_node"),
        _is("namespace_options.ipc", f"{_POD}test_namespaces_of_the_node", "POD or NODE"),
        _no("namespace_options.target_id", "is for containers", InvalidArgument),
        _USERNS,
        _selinux("tests/unit/runtime/spec/test_specs.py::test_sandbox_fields"),
        _is("run_as_user", f"{_POD}test_the_sandbox_itself", "the sandbox's process only"),
        _is("run_as_group", f"{_POD}test_the_sandbox_itself", "beside run_as_user only"),
        _is("readonly_rootfs", f"{_FULL}test_the_fullest_pod"),
        _is("supplemental_groups", f"{_POD}test_the_sandbox_itself"),
        _is("supplemental_groups_policy", f"{_FULL}test_the_fullest_pod", "Strict: the process has a group by number"),
        _is("privileged", f"{_PROCESS}test_privileged", "lets containers be privileged"),
        _is("seccomp", f"{_FULL}test_the_fullest_pod", "absent: unconfined"),
        _apparmor(),
        _is("seccomp_profile_path", f"{_FULL}test_the_fullest_pod", "`seccomp` wins"),
    ),
)

RESOURCES = (
    _is("cpu_period", _FULLEST),
    _is("cpu_quota", _FULLEST, "−1: no limit"),
    _is("cpu_shares", _FULLEST, "0: 1024"),
    _is("memory_limit_in_bytes", _FULLEST),
    _is("oom_score_adj", _FULLEST, "raised to the lowest that the host allows"),
    _is("cpuset_cpus", _FULLEST),
    _is("cpuset_mems", _FULLEST),
    _HUGEPAGES,
    _UNIFIED,
    _is(
        "memory_swap_limit_in_bytes",
        f"{_INT}test_fields_limits.py::test_swap",
        "0: no swap beyond the memory limit; −1: no limit. Nothing where the kernel does not account for swap",
    ),
)

CONTAINER = (
    *_under(
        "ContainerConfig",
        _is("metadata", f"{_PROCESS}test_identity_is_given_back", "the engine's name of the container"),
        _is("image.image", f"{_PROCESS}test_image_by_id"),
        _kept("image.annotations", _FULLEST, "hints; told in status"),
        _is("image.user_specified_image", f"{_PROCESS}test_image_by_id", "the image of status"),
        _is("image.runtime_handler", f"{_FULL}test_bad_values", "one that is known; images are the same for all"),
        _kept("image.image_ref", f"{_FULL}test_image_ref_of_a_request", "is for answers"),
        _is("command", f"{_PROCESS}test_command_arguments_and_environment"),
        _is("args", f"{_PROCESS}test_command_arguments_and_environment"),
        _is("working_dir", f"{_PROCESS}test_command_arguments_and_environment"),
        _is("envs", _FULLEST, "UTF-8 without NUL, as the engine carries text"),
        _is("mounts.container_path", _FULLEST, "each once, and not /"),
        _is("mounts.host_path", _FULLEST, "must exist; links are followed"),
        _is("mounts.readonly", f"{_POD}test_readonly_is_not_recursive_unless_asked", "not what is mounted below"),
        _where(
            "mounts.selinux_relabel",
            Node.NO_SELINUX,
            UnsupportedField,
            "tests/unit/runtime/spec/test_mounts.py::test_mount",
            "without SELinux there is nothing to relabel",
        ),
        _is("mounts.propagation", f"{_POD}test_propagation"),
        _front("mounts.uidMappings", _USERS, "those of the pod's user namespace", needs="a user namespace of the pod"),
        _front("mounts.gidMappings", _USERS, "those of the pod's user namespace", needs="a user namespace of the pod"),
        _where(
            "mounts.recursive_read_only",
            Feature.READONLY_RECURSION,
            RROUnsupported,
            f"{_FULL}test_recursive_read_only",
            "and Linux 5.12",
            front="Linux 5.12 and a runtime that knows `rro`",
        ),
        _of_images("mounts.image", "read-only; `image_ref` is the id in status"),
        _of_images("mounts.image_sub_path", "a path of the image"),
        _front(
            "mounts.mount_options",
            f"{_FRONT}test_mount_options",
            "noexec, nodev, nosuid; not for what is mounted below",
        ),
        _is("devices", f"{_POD}test_devices", "a folder stands for the devices in it"),
        _is("labels", f"{_PROCESS}test_identity_is_given_back"),
        _is("annotations", f"{_PROCESS}test_identity_is_given_back"),
        _is("log_path", f"{_INT}test_logs.py::test_what_is_printed_is_in_the_log"),
        _is("stdin", f"{_PROCESS}test_terminal_and_stdin"),
        _is("stdin_once", f"{_PROCESS}test_terminal_and_stdin"),
        _is("tty", f"{_PROCESS}test_terminal_and_stdin"),
        _WINDOWS,
        _where(
            "CDI_devices",
            Feature.CDI_DEVICES,
            UnsupportedField,
            f"{_FULL}test_cdi_devices",
            "names that the engine's CDI specifications have",
        ),
        _is("stop_signal", f"{_PROCESS}test_stop_signal"),
    ),
    *_under("ContainerConfig.linux.resources", *RESOURCES),
    *_under(
        "ContainerConfig.linux.security_context",
        _is("capabilities.add_capabilities", f"{_PROCESS}test_capabilities"),
        _is("capabilities.drop_capabilities", f"{_PROCESS}test_capabilities", "wins over adding"),
        _front(
            "capabilities.add_ambient_capabilities",
            f"{_FRONT}test_ambient_capabilities",
            "in all five sets; in an exec, too",
        ),
        _is("privileged", f"{_PROCESS}test_privileged", "in a privileged pod only"),
        _is("namespace_options.network", f"{_POD}test_namespaces_of_a_pod", "the pod's"),
        _is("namespace_options.pid", f"{_POD}test_namespaces_of_a_pod"),
        _is("namespace_options.ipc", f"{_POD}test_namespaces_of_a_pod", "the pod's"),
        _is("namespace_options.target_id", f"{_POD}test_namespaces_of_a_pod", "a running container of the pod"),
        _USERNS,
        _selinux("tests/unit/runtime/spec/test_specs.py::test_container_fields"),
        _is("run_as_user", f"{_PROCESS}test_users"),
        _is("run_as_group", f"{_PROCESS}test_users", "beside a user only"),
        _is("run_as_username", f"{_PROCESS}test_users", "one that the image has"),
        _is("readonly_rootfs", f"{_PROCESS}test_masked_and_readonly"),
        _is("supplemental_groups", f"{_IMAGES}test_groups_by_policy"),
        _is("supplemental_groups_policy", f"{_IMAGES}test_groups_by_policy"),
        _is("no_new_privs", f"{_PROCESS}test_privileges"),
        _is("masked_paths", f"{_PROCESS}test_masked_and_readonly", "empty: none"),
        _is("readonly_paths", f"{_PROCESS}test_masked_and_readonly", "empty: none"),
        _is("seccomp", f"{_PROCESS}test_privileges", "absent: unconfined"),
        _apparmor("; wins over `apparmor_profile`"),
        _where(
            "apparmor_profile",
            Node.APPARMOR,
            UnsupportedField,
            f"{_VM}test_apparmor.py::test_spec",
            "the same in its deprecated form",
        ),
        _is("seccomp_profile_path", f"{_PROCESS}test_privileges", "`seccomp` wins"),
    ),
)

UPDATES = (
    _is("UpdateContainerResourcesRequest.container_id", f"{_INT}test_bad_input.py::test_ids"),
    _kept("UpdateContainerResourcesRequest.annotations", f"{_POD}test_updates", "hints; none is known"),
    *_under("UpdateContainerResourcesRequest", _WINDOWS),
    *(
        field
        if field.refused or field.front or "swap" in field.path
        else _is(field.path, f"{_FULL}test_updates_one_by_one", "0: stays")
        for field in _under("UpdateContainerResourcesRequest.linux", *RESOURCES)
    ),
    _is("UpdatePodSandboxResourcesRequest.pod_sandbox_id", f"{_INT}test_bad_input.py::test_ids"),
    *_under(
        "UpdatePodSandboxResourcesRequest",
        _kept("overhead", f"{_FULL}test_pod_resources_are_remembered", "the kubelet writes the pod's cgroup"),
        _kept("resources", f"{_FULL}test_pod_resources_are_remembered", "the kubelet writes the pod's cgroup"),
    ),
)

FIELDS: tuple[Field, ...] = (*POD, *CONTAINER, *UPDATES)
"""All of them, in the order of the messages."""
