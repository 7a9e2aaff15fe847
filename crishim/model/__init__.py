"""The requests of CRI as plain values, for the whole inside of the server.

One frozen dataclass per message that the server keeps or passes on, with the message's name, the fields' names in
snake case and proto3's default for each: a repeated field is a tuple, a map a mapping, a message that may be absent
`T | None`, a wrapped number `int | None`. Nothing here checks anything: what a value must satisfy is the business of
the verb that uses it. Messages of other systems (`windows`) have no place here; they are refused where requests are
decoded.

Pure: no gRPC, no protobuf, no pydantic. (pydantic reads and writes every class by its type hints; the checkpoint stores
rely on that.)
"""

from __future__ import annotations

from crishim.model.container import (
    CDIDevice,
    ContainerConfig,
    ContainerMetadata,
    Device,
    KeyValue,
    LinuxContainerConfig,
    Mount,
)
from crishim.model.enums import (
    CgroupDriver,
    ContainerState,
    MountPropagation,
    NamespaceMode,
    PodSandboxState,
    ProfileType,
    Protocol,
    Signal,
    SupplementalGroupsPolicy,
)
from crishim.model.filters import (
    ContainerFilter,
    ContainerStatsFilter,
    ImageFilter,
    PodSandboxFilter,
    PodSandboxStatsFilter,
)
from crishim.model.image import (
    AuthConfig,
    ImageSpec,
)
from crishim.model.resources import (
    HugepageLimit,
    LinuxContainerResources,
)
from crishim.model.sandbox import (
    DNSConfig,
    LinuxPodSandboxConfig,
    PodSandboxConfig,
    PodSandboxMetadata,
    PortMapping,
)
from crishim.model.security import (
    Capability,
    IDMapping,
    LinuxContainerSecurityContext,
    LinuxSandboxSecurityContext,
    NamespaceOption,
    SecurityProfile,
    SELinuxOption,
    UserNamespace,
)

__all__ = [
    "AuthConfig",
    "CDIDevice",
    "Capability",
    "CgroupDriver",
    "ContainerConfig",
    "ContainerFilter",
    "ContainerMetadata",
    "ContainerState",
    "ContainerStatsFilter",
    "DNSConfig",
    "Device",
    "HugepageLimit",
    "IDMapping",
    "ImageFilter",
    "ImageSpec",
    "KeyValue",
    "LinuxContainerConfig",
    "LinuxContainerResources",
    "LinuxContainerSecurityContext",
    "LinuxPodSandboxConfig",
    "LinuxSandboxSecurityContext",
    "Mount",
    "MountPropagation",
    "NamespaceMode",
    "NamespaceOption",
    "PodSandboxConfig",
    "PodSandboxFilter",
    "PodSandboxMetadata",
    "PodSandboxState",
    "PodSandboxStatsFilter",
    "PortMapping",
    "ProfileType",
    "Protocol",
    "SELinuxOption",
    "SecurityProfile",
    "Signal",
    "SupplementalGroupsPolicy",
    "UserNamespace",
]
