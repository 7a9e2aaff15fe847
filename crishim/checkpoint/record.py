"""The values that a checkpoint store keeps. They never change in place: `dataclasses.replace` makes the next one.

Times are nanoseconds since the epoch. Ids are full engine ids, but for sandboxes that are anchored.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from crishim.model import ContainerConfig, LinuxContainerResources, PodSandboxConfig
from crishim.network.api import Attached

RECORD_VERSION = 1
"""Version that this crishim writes, and the highest that it reads."""


class Phase(enum.StrEnum):
    """How far a sandbox's life has come, as far as only we can know it."""

    CREATING = "creating"
    """RunPodSandbox has not answered, or died before it could: what it began is to be undone."""
    READY = "ready"
    """Every step of RunPodSandbox was done, and nobody has asked to stop it."""
    STOPPED = "stopped"
    """Stop or a failure took it apart, or has begun to: READY never comes back."""


class Carrier(enum.StrEnum):
    """What holds a pod's namespaces."""

    PAUSE = "pause"
    """A process of the engine's that only sleeps; the sandbox's id is its container's."""
    ANCHORED = "anchored"
    """Pins of our own. The sandbox's id is ours; the engine's object of it is started only where containers share a
    PID namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRecord:
    """What is kept of one container."""

    id: str
    config: ContainerConfig
    """The request as it came, so that status tells mounts, image and annotations as given; the images of mounts with
    the ids that their names resolved to (`image_ref`)."""
    image_ref: str
    """Id of the image that the request's name resolved to, as PullImage tells it (CRI `ContainerStatus.image_ref`)."""
    created_at: int
    resources: LinuxContainerResources | None = None
    """As last asked by UpdateContainerResources; None: as in `config`."""
    oom_score_adj: int | None = None
    """As last set by UpdateContainerResources, within what the host allows; None: as created. The engine does not know
    of it."""
    log_position: tuple[int, int] | None = None
    """Inode and offset in the engine's log up to which lines were written to the log path; None: nothing was."""
    log_mark: int = 0
    """Checksum of the first line of that file of the engine's: another one may get its inode."""
    log_file: tuple[int, int] | None = None
    """Inode and size of the file at the log path when all up to `log_position` had been written."""
    log_complete: bool = False
    """All that a container had said when it ended is in its log."""

    @property
    def images(self) -> frozenset[str]:
        """Ids of the images that the container is made of: its own, and those that are mounted in it."""
        return self.mounted_images | ({self.image_ref} - {""})

    @property
    def mounted_images(self) -> frozenset[str]:
        """Ids of the images that are mounted in it."""
        mounted = (m.image.image_ref for m in self.config.mounts if m.image is not None and m.image.image)
        return frozenset(mounted) - {""}


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRecord:
    """What is kept of one pod sandbox and its containers: the unit that is read and written whole."""

    id: str
    version: int = RECORD_VERSION
    phase: Phase
    config: PodSandboxConfig
    """The request as it came."""
    runtime_handler: str = ""
    """As asked; empty is the default handler."""
    created_at: int
    netns_path: str = ""
    """Where the network namespace is pinned; empty: not pinned (host network, no network, or not yet)."""
    image_ref: str = ""
    """Id of the sandbox image."""
    started_at: int = 0
    """The engine's start time of the process whose namespace is pinned; 0: not started yet.

    Another start time means that the sandbox was restarted behind our back and the pin is of a namespace nobody lives
    in.
    """
    network: Attached | None = None
    """The attachment to the pod network; None: host network, no network, or long detached.

    Written without a result before ADD is called, so that DEL follows whatever happens in between.
    """
    containers: Mapping[str, ContainerRecord] = field(default_factory=dict)
    """By container id."""
    overhead: LinuxContainerResources | None = None
    """As last asked by UpdatePodSandboxResources; None: as in `config`."""
    resources: LinuxContainerResources | None = None
    """As last asked by UpdatePodSandboxResources, without `overhead`; None: as in `config`."""
    carrier: Carrier = Carrier.PAUSE
    object_id: str = ""
    """The engine's id for the object of an anchored pod, which changes when it is made again; empty: not known."""
