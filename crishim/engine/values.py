"""The words in which crishim speaks of an engine's objects: no JSON, no HTTP, no CRI messages.

Times are nanoseconds since the epoch, 0 where the engine has none. Sizes are bytes.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What an engine says of itself after the handshake."""

    name: str
    """`docker`, or the name of the simulated engine."""
    version: str
    api_version: tuple[int, int]
    """The negotiated one: the highest that both sides know."""
    cgroup_driver: Literal["systemd", "cgroupfs", "none"]
    cgroup_version: Literal[1, 2]
    data_root: str
    storage_driver: str
    containerd_store: bool
    """Images live in containerd: ids are manifest digests and the folder may lie outside data_root."""
    runtimes: tuple[str, ...]
    """What pods may be run by: fronted twins (`twins`) are not among them."""
    default_runtime: str
    security: frozenset[str]
    """Names of security options in force: `seccomp`, `apparmor`, `selinux`, `cgroupns`."""
    architecture: str
    kernel: str
    live_restore: bool
    experimental: bool
    readonly_recursion: frozenset[str] = frozenset()
    """Runtimes that say they can make a mount read-only with all that is mounted below it."""
    cdi: bool = False
    """Devices can be given by CDI name."""
    twins: Mapping[str, str] = field(default_factory=dict)
    """Runtimes that the engine knows a fronted twin of, each with the path of the twin's program."""
    programs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Runtimes that are an OCI runtime's program, each with that and its arguments; a name without a slash is looked up
    by the engine. Those that bring a shim of their own are missing."""
    daemon_pid: int
    """Process that opened the engine's socket for listening (SO_PEERCRED), 0 if unknown.

    It is the service manager where that activates the socket."""


class ContainerPhase(enum.Enum):
    """Where a container is in its life. Only moves downwards, except that a restart goes back to RUNNING."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    REMOVING = "removing"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineResources:
    """Resource limits. None: not said (create: the engine's default; update: leave as it is). 0: no limit.

    Two have no such thing as no limit: `cpu_shares` 0 is the usual weight (1024), and an empty cpuset is as None.
    """

    cpu_shares: int | None = None
    cpu_quota: int | None = None
    cpu_period: int | None = None
    cpuset_cpus: str | None = None
    cpuset_mems: str | None = None
    memory: int | None = None
    memory_swap: int | None = None
    """Memory plus swap, as Docker counts; -1 unlimited."""
    pids_limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMount:
    """A bind mount from the host, or a read-only view of an image's files."""

    source: str
    """Path on the host, or the image's id or name when `image` is set."""
    target: str
    image: bool = False
    """`source` is an image; an engine takes it with `Feature.IMAGE_MOUNTS` only."""
    image_subpath: str = ""
    """Folder in the image to show, relative to its root; empty for the whole."""
    readonly: bool = False
    recursive_readonly: bool = False
    """Submounts read-only, too. False: they are not, whatever the engine's default is."""
    propagation: Literal["rprivate", "rslave", "rshared"] = "rprivate"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDevice:
    """A host device given to a container; permissions are any of r, w, m."""

    host_path: str
    container_path: str
    permissions: str = "rwm"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpool:
    """How the engine keeps a container's output: always json-file, blocking, uncompressed."""

    max_size: int = 16 << 20
    max_files: int = 4


@dataclass(frozen=True, slots=True)
class LogEntry:
    """Something that a container printed, as the engine kept it."""

    time: int
    """Nanoseconds since the epoch."""
    stream: Literal["stdout", "stderr"]
    text: bytes
    """A line with its end, or a part of one without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """All that an engine is told about a new container. Nothing is left to the daemon's defaults."""

    image: str
    labels: Mapping[str, str]
    entrypoint: tuple[str, ...] = ()
    """Empty: the image's."""
    command: tuple[str, ...] = ()
    """Empty: the image's, unless entrypoint is given (then none)."""
    env: tuple[tuple[str, str], ...] = ()
    working_dir: str = ""
    user: str = ""
    hostname: str = ""
    domainname: str = ""
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False
    stop_signal: str = ""
    runtime: str = ""
    cgroup_parent: str = ""
    network_mode: str = "none"
    """`none`, `host`, or `container:ID`."""
    ipc_mode: str = "private"
    """`private`, `shareable`, `host`, or `container:ID`."""
    pid_mode: str = ""
    """Empty for its own, `host`, or `container:ID`."""
    uts_mode: str = ""
    """Empty for its own, or `host`."""
    cgroupns_mode: Literal["private", "host"] = "private"
    privileged: bool = False
    readonly_rootfs: bool = False
    no_new_privileges: bool = False
    cap_add: tuple[str, ...] = ()
    cap_drop: tuple[str, ...] = ()
    seccomp: str | None = None
    """None: the engine's default; `unconfined`; or the profile's JSON text."""
    apparmor: str | None = None
    """None: the engine's default; `unconfined`; or a profile's name."""
    selinux: tuple[str, ...] = ()
    """`user:X`, `role:X`, `type:X`, `level:X`, or `disable`."""
    masked_paths: tuple[str, ...] | None = None
    """None: the engine's default list. Empty: nothing is masked."""
    readonly_paths: tuple[str, ...] | None = None
    groups: tuple[int, ...] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    shm_size: int = 64 << 20
    oom_score_adj: int = 0
    resources: EngineResources = field(default_factory=EngineResources)
    mounts: tuple[EngineMount, ...] = ()
    devices: tuple[EngineDevice, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    log_spool: LogSpool = field(default_factory=LogSpool)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContainer:
    """A container as inspect shows it."""

    id: str
    name: str
    image_id: str
    image: str
    """The reference it was created with."""
    phase: ContainerPhase
    paused: bool = False
    pid: int = 0
    exit_code: int = 0
    error: str = ""
    """Why a start failed, in the engine's words."""
    oom_killed: bool = False
    created_at: int
    started_at: int = 0
    finished_at: int = 0
    labels: Mapping[str, str]
    log_path: str = ""
    log_driver: str = ""
    resolv_conf_path: str = ""
    hosts_path: str = ""
    network_mode: str = ""
    ipc_mode: str = ""
    pid_mode: str = ""
    runtime: str = ""
    cgroup_parent: str = ""
    user: str = ""
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False
    privileged: bool = False
    stop_signal: str = ""
    env: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    working_dir: str = ""
    mounts: tuple[EngineMount, ...] = ()
    resources: EngineResources = field(default_factory=EngineResources)
    oom_score_adj: int = 0
    image_layers: tuple[str, ...] = ()
    """Folders with the files of its image's layers, the topmost first; empty where the storage driver has none such."""
    merged_dir: str = ""
    """Mounted root file system of a running container as the graph driver tells it, empty if it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedContainer:
    """A container as the engine's list shows it: all of them for little more than what one inspect costs."""

    id: str
    names: tuple[str, ...]
    """All that it goes by, its own among them; empty for what is left of a removal that failed."""
    phase: ContainerPhase | None
    """None: the list says something that is not known; an inspect may tell."""
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineImage:
    """An image as inspect shows it."""

    id: str
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    size: int
    user: str = ""
    """`uid`, `name`, `uid:gid` or `name:group`, as the image says."""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    working_dir: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    volumes: tuple[str, ...] = ()
    stop_signal: str = ""
    created_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEvent:
    """Something happened to an object. Never a state: whoever is interested asks."""

    kind: Literal["container", "image", "daemon", "unread"]
    """`daemon`: the engine itself, which has read its configuration anew (`reload`). `unread`: something happened of
    which the event could not be read, so that nobody knows to what object."""
    action: str
    """`create`, `start`, `die`, `destroy`, `oom`, … as the engine names them."""
    id: str
    time: int
    attributes: Mapping[str, str]
    """Labels of the container, and `name`, `exitCode` and the like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """A sign of life of a pull; `stage` as the engine says it (`Downloading`, `Verifying Checksum`, `Extracting`)."""

    layer: str
    stage: str
    current: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RegistryAuth:
    """Credentials for one registry; its repr shows no secret."""

    server: str = ""
    username: str = ""
    password: str = ""
    identity_token: str = ""
    registry_token: str = ""

    def __repr__(self) -> str:
        kinds: Sequence[str] = [k for k in ("password", "identity_token", "registry_token") if getattr(self, k)]
        return f"RegistryAuth(server={self.server!r}, username={self.username!r}, has={'+'.join(kinds) or 'nothing'})"
