"""A pod sandbox as a caller asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from crishim.model.enums import Protocol
from crishim.model.resources import LinuxContainerResources
from crishim.model.security import LinuxSandboxSecurityContext


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSandboxMetadata:
    """What makes a sandbox unique (CRI `PodSandboxMetadata`): the pod's identity and the attempt at running it."""

    name: str = ""
    uid: str = ""
    namespace: str = ""
    attempt: int = 0
    """0 at first, one more each time the kubelet replaces the pod's sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DNSConfig:
    """Content of the pod's /etc/resolv.conf (CRI `DNSConfig`). Absent or empty: the engine's file stays as it is."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PortMapping:
    """A port of the pod made reachable on the host (CRI `PortMapping`)."""

    protocol: Protocol = Protocol.TCP
    container_port: int = 0
    host_port: int = 0
    """0: not mapped; such entries only tell that the pod listens."""
    host_ip: str = ""
    """Address of the host to listen on; empty: all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinuxPodSandboxConfig:
    """The Linux part of a sandbox (CRI `LinuxPodSandboxConfig`)."""

    cgroup_parent: str = ""
    """The pod's cgroup in cgroupfs syntax (`/kubepods/podX`), whatever the driver; empty: the engine's default."""
    security_context: LinuxSandboxSecurityContext | None = None
    sysctls: Mapping[str, str] = field(default_factory=dict)
    """Dotted names to values, for kernel settings that are per namespace."""
    overhead: LinuxContainerResources | None = None
    """What the sandbox itself may use, beside its containers."""
    resources: LinuxContainerResources | None = None
    """Sum of the containers' resources, without `overhead`. Kept only: the kubelet writes the pod's cgroup itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSandboxConfig:
    """All that RunPodSandbox needs to know (CRI `PodSandboxConfig`)."""

    metadata: PodSandboxMetadata | None = None
    """Needed by RunPodSandbox; absent in other requests that carry a sandbox config only for one field of it."""
    hostname: str = ""
    """May be empty only with host network."""
    log_directory: str = ""
    """Folder on the host under which the containers' `log_path` lie."""
    dns_config: DNSConfig | None = None
    port_mappings: tuple[PortMapping, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """For selecting; come back exactly as given."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Not for selecting; come back exactly as given."""
    linux: LinuxPodSandboxConfig | None = None
