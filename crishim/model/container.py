"""A container as a caller asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from crishim.model.enums import MountPropagation, Signal
from crishim.model.image import ImageSpec
from crishim.model.resources import LinuxContainerResources
from crishim.model.security import IDMapping, LinuxContainerSecurityContext


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerMetadata:
    """What makes a container unique within its sandbox (CRI `ContainerMetadata`)."""

    name: str = ""
    attempt: int = 0
    """0 at first, one more each time the kubelet makes the container anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValue:
    """An environment variable (CRI `KeyValue`).

    The wire carries the value as bytes; the engine takes text only, so what is not UTF-8 is refused when it is decoded.
    """

    key: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file or folder of the host, or an image's content, in a container (CRI `Mount`)."""

    container_path: str = ""
    host_path: str = ""
    """Must exist; symbolic links are followed. Empty where `image` is given."""
    readonly: bool = False
    selinux_relabel: bool = False
    propagation: MountPropagation = MountPropagation.PROPAGATION_PRIVATE
    uid_mappings: tuple[IDMapping, ...] = ()
    """For an idmapped mount in a pod with a user namespace (wire name `uidMappings`)."""
    gid_mappings: tuple[IDMapping, ...] = ()
    recursive_read_only: bool = False
    """Mounts below are read-only, too; demands `readonly` and private propagation."""
    image: ImageSpec | None = None
    """Mount this image's content instead of a host path."""
    image_sub_path: str = ""
    """Folder within `image`."""
    mount_options: tuple[str, ...] = ()
    """Of `noexec`, `nodev`, `nosuid`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device of the host in a container (CRI `Device`)."""

    container_path: str = ""
    host_path: str = ""
    """A device, or a folder of which each device is given."""
    permissions: str = ""
    """Any of `r`, `w`, `m`; empty means all three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CDIDevice:
    """A device by its Container Device Interface name, `vendor/class=name` (CRI `CDIDevice`)."""

    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinuxContainerConfig:
    """The Linux part of a container (CRI `LinuxContainerConfig`)."""

    resources: LinuxContainerResources | None = None
    security_context: LinuxContainerSecurityContext | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerConfig:
    """All that CreateContainer needs to know beside the sandbox (CRI `ContainerConfig`)."""

    metadata: ContainerMetadata | None = None
    image: ImageSpec | None = None
    command: tuple[str, ...] = ()
    """Replaces the image's entrypoint, and its command as well."""
    args: tuple[str, ...] = ()
    """Replaces the image's command."""
    working_dir: str = ""
    """Empty: the image's."""
    envs: tuple[KeyValue, ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    log_path: str = ""
    """Relative to the sandbox's `log_directory`; empty: no log file."""
    stdin: bool = False
    """Keep a standard input open for attaching."""
    stdin_once: bool = False
    """Close it for good when the first attach ends."""
    tty: bool = False
    linux: LinuxContainerConfig | None = None
    cdi_devices: tuple[CDIDevice, ...] = ()
    """Wire name `CDI_devices`."""
    stop_signal: Signal = Signal.SIGNAL_RUNTIME_DEFAULT
