"""What the front is to carry for one container: plain values that rewriting needs no other knowledge for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from crishim.model import HugepageLimit, IDMapping

ALL = "ALL"
"""In `Wish.ambient`: every capability that the container may have."""

NamespaceKind = Literal["network", "ipc", "uts", "user"]
MountOption = Literal["noexec", "nodev", "nosuid", "rro"]


class UnfitConfig(Exception):  # noqa: N818 - said as it is: the configuration does not fit the wish
    """A configuration in which a wish cannot be carried out: it lacks what the wish is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IDMappings:
    """Ids of a user namespace (config-linux.md, `uidMappings`, `gidMappings`)."""

    uids: tuple[IDMapping, ...]
    gids: tuple[IDMapping, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """All that is to be different from what the engine wrote. The default of each field: nothing."""

    ambient: tuple[str, ...] = ()
    """Capabilities for all five sets, as `CAP_NAME`, or `ALL` (CRI `Capability.add_ambient_capabilities`); of each
    process that is started in the container, too."""
    mount_options: Mapping[str, tuple[MountOption, ...]] = field(default_factory=dict)
    """By a mount's destination: options it shall have. `rro` is read-only with all that is mounted below."""
    unified: Mapping[str, str] = field(default_factory=dict)
    """Files of the container's cgroup (version 2) to their content."""
    hugepage_limits: tuple[HugepageLimit, ...] = ()
    """One per page size, in bytes."""
    namespaces: Mapping[NamespaceKind, str] = field(default_factory=dict)
    """Kind to the path of a pinned namespace to join. With `uts` the name of the host is that of the namespace, so that
    the configuration loses its own."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Destination to the path on the host that is shown there in place of the engine's file, such as
    /etc/resolv.conf."""
    shm_source: str = ""
    """Path on the host that is mounted as /dev/shm; empty: the engine's."""
    shm_size: int = 0
    """Bytes of a /dev/shm of the container's own, where there is no `shm_source`; 0: the engine's."""
    sysctls: Mapping[str, str] = field(default_factory=dict)
    """Kernel settings of the container's namespaces, dotted (config-linux.md, `sysctl`)."""
    id_mappings: IDMappings | None = None
    """Those of the user namespace to join; None: the host's."""
    shifted: tuple[str, ...] = ()
    """Destinations of mounts that are to have their owners shifted into it."""

    @property
    def for_exec(self) -> bool:
        """Whether processes that are started later in the container are wished to be different, too."""
        return bool(self.ambient)


NOTHING = Wish()
"""A container that is to be as the engine wrote it."""
