"""`Runtime`: what every verb may use. The composition root makes one; the use-case tests make one of fakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from crishim.aiokit.background import Background
from crishim.aiokit.locks import KeyedLocks
from crishim.runtime.index import Index
from crishim.runtime.last_seen import LastSeen
from crishim.runtime.names import Names

if TYPE_CHECKING:
    from crishim.front.markers import ExecMarkers
    from crishim.images.service import Images
    from crishim.network.api import PodNetwork
    from crishim.network.namespaces import NetworkNamespaces
    from crishim.runtime.anchored.anchor import Anchor
    from crishim.runtime.anchored.process import Processes
    from crishim.runtime.engine_link import EngineLink
    from crishim.runtime.host import Host
    from crishim.runtime.image_volumes import ImageVolumes
    from crishim.runtime.logs import Logs
    from crishim.runtime.making import Making
    from crishim.runtime.records import Records
    from crishim.runtime.spec.accounts import Accounts
    from crishim.runtime.watch import Watch


@dataclass(frozen=True, kw_only=True)
class RuntimeSettings:
    """The part of the configuration that verbs read."""

    undo_deadline: float = 60.0
    """Seconds an undo may take before the rest is left for Stop and Remove."""
    log_spool_size: int = 16 << 20
    """Bytes of one of the engine's log files."""
    log_spool_files: int = 4
    shm_size: int = 64 << 20
    """Bytes of a pod's /dev/shm."""
    pids_limit: int = 0
    """Processes a container may have; 0: no limit of ours."""
    carrier: Literal["auto", "pause", "anchored"] = "auto"
    """What holds the namespaces of new pods (`runtime.carrier`)."""
    kill_wait: float = 10.0
    """Seconds a killed container may take to end before the call fails."""


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Collaborators of the verbs. Nothing here decides anything."""

    link: EngineLink
    """The engine as it is now; `link.engine` raises EngineUnavailable while it is not there."""
    records: Records
    """The way to every change of a sandbox's record, in index and store."""
    network: PodNetwork
    namespaces: NetworkNamespaces
    images: Images
    volumes: ImageVolumes
    anchor: Anchor
    """What containers of anchored pods name as their network."""
    processes: Processes
    """Those of anchored pods that share a PID namespace."""
    watch: Watch
    logs: Logs
    host: Callable[[], Host]
    """What the host of the engine allows, as of the last connection."""
    index: Index
    names: Names
    last_seen: LastSeen
    """What the store remembers of the engine, for a start without it."""
    locks: KeyedLocks
    """One per sandbox and one per container. A sandbox's is taken before a container's, never after."""
    background: Background
    exec_markers: ExecMarkers
    """Which containers' execs the front is to ask about."""
    settings: RuntimeSettings = field(default_factory=RuntimeSettings)
    running: dict[str, Making] = field(default_factory=dict)
    """Sandbox id to the RunPodSandbox that is making it, for StopPodSandbox to end."""
    accounts: dict[str, Accounts] = field(default_factory=dict)
    """Image id to what its account files say, of images that were looked into."""
