"""Who a process runs as, what it may do, and whose namespaces it lives in."""

from __future__ import annotations

from dataclasses import dataclass

from crishim.model.enums import NamespaceMode, ProfileType, SupplementalGroupsPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class IDMapping:
    """A run of `length` ids: `container_id`… inside a user namespace, `host_id`… outside (CRI `IDMapping`)."""

    host_id: int = 0
    container_id: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UserNamespace:
    """The pod's user namespace (CRI `UserNamespace`).

    `NODE` is the host's and takes no mappings; `POD` takes exactly one mapping of users and one of groups; the other
    modes are not allowed.
    """

    mode: NamespaceMode = NamespaceMode.POD
    uids: tuple[IDMapping, ...] = ()
    gids: tuple[IDMapping, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceOption:
    """Whose namespaces a sandbox or container uses (CRI `NamespaceOption`).

    Of a container only `pid` is its own choice; network and IPC follow the sandbox.
    """

    network: NamespaceMode = NamespaceMode.POD
    pid: NamespaceMode = NamespaceMode.POD
    ipc: NamespaceMode = NamespaceMode.POD
    target_id: str = ""
    """Container of the same pod whose PID namespace is joined; counts only with `pid` TARGET."""
    userns_options: UserNamespace | None = None
    """None: the host's user namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SELinuxOption:
    """The four parts of an SELinux label (CRI `SELinuxOption`); an empty part is the policy's own."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityProfile:
    """A seccomp or AppArmor profile (CRI `SecurityProfile`)."""

    profile_type: ProfileType = ProfileType.RuntimeDefault
    localhost_ref: str = ""
    """With `Localhost` only: absolute path of a seccomp file, or name of a loaded AppArmor profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """Changes to the default set of capabilities (CRI `Capability`).

    Names come with or without `CAP_`; `ALL` stands for every one. Dropping wins over adding.
    """

    add_capabilities: tuple[str, ...] = ()
    """Added to every set but the ambient one."""
    drop_capabilities: tuple[str, ...] = ()
    add_ambient_capabilities: tuple[str, ...] = ()
    """Added to all five sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinuxSandboxSecurityContext:
    """Security of the sandbox's own process (CRI `LinuxSandboxSecurityContext`); containers bring theirs."""

    namespace_options: NamespaceOption | None = None
    selinux_options: SELinuxOption | None = None
    run_as_user: int | None = None
    """User id; None: the image's user."""
    run_as_group: int | None = None
    """Group id; legal only beside `run_as_user`."""
    readonly_rootfs: bool = False
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: SupplementalGroupsPolicy = SupplementalGroupsPolicy.Merge
    privileged: bool = False
    """Whether the pod may hold privileged containers."""
    seccomp: SecurityProfile | None = None
    """None: unconfined, unless the deprecated path names a profile."""
    apparmor: SecurityProfile | None = None
    seccomp_profile_path: str = ""
    """Deprecated form (`runtime/default`, `unconfined`, `localhost/PATH`); `seccomp` wins over it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinuxContainerSecurityContext:
    """Security of a container (CRI `LinuxContainerSecurityContext`)."""

    capabilities: Capability | None = None
    privileged: bool = False
    """All capabilities and devices, no confinement: overrides the other fields of that kind."""
    namespace_options: NamespaceOption | None = None
    selinux_options: SELinuxOption | None = None
    run_as_user: int | None = None
    """User id; None: by `run_as_username`, else the image's user."""
    run_as_group: int | None = None
    """Group id; legal only beside a user."""
    run_as_username: str = ""
    """A name that the image's /etc/passwd must hold; not together with `run_as_user`."""
    readonly_rootfs: bool = False
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: SupplementalGroupsPolicy = SupplementalGroupsPolicy.Merge
    no_new_privs: bool = False
    masked_paths: tuple[str, ...] = ()
    """Hidden in the container; exactly these: empty means none, not the engine's default."""
    readonly_paths: tuple[str, ...] = ()
    """Read-only in the container; exactly these: empty means none."""
    seccomp: SecurityProfile | None = None
    """None: unconfined, unless the deprecated path names a profile."""
    apparmor: SecurityProfile | None = None
    apparmor_profile: str = ""
    """Deprecated form of `apparmor`, which wins over it."""
    seccomp_profile_path: str = ""
    """Deprecated form of `seccomp`, which wins over it."""
