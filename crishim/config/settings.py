"""Every setting of crishim: name, kind, default, and why that default.

A field's name is its key in the file; `CRISHIM_` and the name in capitals is its environment variable; two dashes and
the name with dashes is its flag. The text under each field becomes `--help` and docs/configuration.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from crishim.config.kinds import (
    SIMULATED,
    UNIX,
    AbsolutePath,
    Bytes,
    Count,
    EngineAddress,
    MetricsAddress,
    PathList,
    PodRanges,
    Seconds,
    StreamingAddress,
    UnixAddress,
)
from crishim.front.twins import DESK

BUILT_IN_STORES = ("sqlite", "file", "memory")
BUILT_IN_NETWORKS = ("auto", "embedded", "cni", "none")


def _installed_store(name: str) -> str:
    if name not in BUILT_IN_STORES:
        # Reading what is installed takes a while; it is needed only for stores of other packages.
        from crishim.checkpoint.registry import store_names

        if name not in (names := store_names()):
            raise ValueError(f"must be one of the stores that are installed: {', '.join(names)}")
    return name


def _installed_network(name: str) -> str:
    if name not in BUILT_IN_NETWORKS:
        from crishim.network.registry import network_names

        if name not in (names := ["auto", *network_names()]):
            raise ValueError(f"must be one of the networks that are installed: {', '.join(names)}")
    return name


class Settings(BaseModel):
    """The configuration, complete and checked."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    listen: UnixAddress = "unix:///run/crishim/crishim.sock"
    """Unix socket on which CRI is served, for the kubelet's `--container-runtime-endpoint`. It is made with mode 0660
    and guarded by a lock file beside it. The default lies under /run because nothing of it must survive a boot."""

    engine: EngineAddress = "unix:///var/run/docker.sock"
    """The container engine: the unix socket of a Docker Engine on this machine, or `simulated:` for an engine in memory
    that runs no processes. Where nothing else names one, `DOCKER_HOST` does. The default is Docker's own."""

    state_dir: AbsolutePath = Path("/var/lib/crishim")
    """Folder for what must survive a restart: the checkpoints of sandboxes, the CNI cache. The default is where the
    file system hierarchy wants state."""

    run_dir: AbsolutePath = Path("/run/crishim")
    """Folder for what must not survive a boot."""

    netns_dir: AbsolutePath = Path("/run/netns")
    """Folder in which the pods' network namespaces are pinned. The default is where `ip netns` and the daemons of CNI
    plugins look."""

    checkpoint: Annotated[str, AfterValidator(_installed_store)] = "sqlite"
    """Store of the checkpoints: `sqlite`, `file` (one JSON file per sandbox), `memory` (lost at exit; for tests), or
    the name of one that another package brings. The default writes least and survives being killed."""

    network: Annotated[str, AfterValidator(_installed_network)] = "auto"
    """Network of the pods. `cni` runs the plugins of a CNI configuration, `embedded` uses a bridge of crishim's own,
    `none` gives pods a loopback only, and `auto` is `cni` where there is or ever was a configuration or plugin, else
    `embedded`. It may be the name of one that another package brings. The default suits a lone machine; name `cni` on a
    node of a cluster."""

    pod_cidr: PodRanges = "10.86.0.0/16"
    """Range of the addresses that the network `embedded` gives to pods: an IPv4 or an IPv6 one, or one of each,
    separated by a comma. What a kubelet tells (UpdateRuntimeConfig) goes before it, and is remembered. The default is
    one that few networks use."""

    cni_conf_dir: AbsolutePath = Path("/etc/cni/net.d")
    """Folder of CNI network configurations; the first by name counts. The default is where network providers write."""

    cni_bin_dir: PathList = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
    """Folders of CNI plugins, separated by colons; the first that holds a plugin gives it. The default is where network
    providers put them, then where distributions do."""

    streaming_address: StreamingAddress = "127.0.0.1:0"
    """Address and port on which exec, attach and port-forward are served; port 0 takes a free one. The default is
    reachable from the node only, which is where the kubelet calls from. Any address that is not loopback needs
    `streaming_certificate` and `streaming_key`, or `streaming_insecure`."""

    streaming_certificate: AbsolutePath | None = None
    """File with the certificate (PEM, with its chain) of exec, attach and port-forward, which are served by TLS then.
    It is read anew when it changes. None by default: on loopback nobody listens in."""

    streaming_key: AbsolutePath | None = None
    """File with the key (PEM) of `streaming_certificate`; read anew likewise. None by default."""

    streaming_client_ca: AbsolutePath | None = None
    """File with the CAs (PEM) of which each client must show a certificate; read anew likewise. None, the default, lets
    in every client that has an unused URL: a kubelet has no certificate to show."""

    streaming_insecure: bool = False
    """Whether exec, attach and port-forward may be served beyond loopback without TLS: who can listen in on the network
    could then read and take over every session, so that the default is no."""

    streaming_idle_limit: Seconds = 14400.0
    """Seconds after which a session ends of which not a byte came from or went to the client; 0 is no limit. The
    default is what kubelets' users are used to."""

    streaming_dead_after: Seconds = 60.0
    """Seconds after which a client whose machine does not answer any more is taken for dead; 0 leaves that to the
    kernel, which takes hours. The default outlasts a switch that restarts."""

    carrier: Literal["auto", "pause", "anchored"] = "auto"
    """What holds the namespaces of new pods: `pause` is a process of the engine's per pod that only sleeps, `anchored`
    is crishim itself, which takes neither a process nor the time to start one and needs the runtime front
    (`crishim install-runtime`). `auto` is `anchored` where the front is there, else `pause`. Pods that share their PID
    namespace have a process in any case, which reaps. The default does the best there is."""

    sandbox_image: str = ""
    """Image of the sandbox containers. Empty, the default, is the one that is part of crishim and needs no registry."""

    sandbox_image_credentials: AbsolutePath | None = None
    """File with credentials for `sandbox_image`, in the form of docker's config.json (`auths`); read at each pull. None
    by default."""

    metrics_address: MetricsAddress = ""
    """Address and port on which the server tells of itself by HTTP: `/metrics` for Prometheus, `/healthz`, `/readyz`;
    port 0 takes a free one. Empty, the default, is none: it takes some 4 MB. Any address that is not loopback needs
    `metrics_insecure`."""

    metrics_insecure: bool = False
    """Whether `metrics_address` may be one that other machines can reach. What it serves is only read, but by everyone,
    without TLS, so that the default is no."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What is logged to standard error. `debug` adds a line per call with its timed steps."""

    log_format: Literal["text", "json"] = "text"
    """`text` for people and the journal, `json` for one object per line."""

    timeline: AbsolutePath | None = None
    """File to which each call is appended as one JSON line with its timed steps. None by default: it grows without
    bounds."""

    pull_stall_limit: Seconds = 60.0
    """Seconds for which a pull may show no progress from the registry before it fails; 0 is no limit. The default is
    what kubelets' users are used to."""

    pull_work_limit: Seconds = 600.0
    """The same while the engine verifies or unpacks a layer, of which it tells nothing: seconds, 0 is no limit. The
    default suits a layer of several gigabytes on a slow disk."""

    drain_limit: Seconds = 30.0
    """Seconds for which calls under way may go on after SIGTERM before they are cancelled and undone; streams of exec,
    attach and port-forward end at once, with an error. The default lets an ordinary call end and stays below the 90 s
    after which systemd kills."""

    undo_deadline: Seconds = 60.0
    """Seconds that undoing a failed call may take before the rest is left for StopPodSandbox and RemovePodSandbox. The
    default outlasts a slow CNI plugin."""

    kill_wait: Seconds = 10.0
    """Seconds that a killed container may take to end before StopContainer fails. A process in uninterruptible sleep
    takes long; the kubelet asks again."""

    log_spool_size: Annotated[Bytes, Field(ge=1 << 20)] = 16 << 20
    """Bytes of one of the engine's files for a container's output (suffixes such as MiB are understood), at least 1
    MiB. The default holds some seconds of the loudest container while its log is written."""

    log_spool_files: Annotated[Count, Field(ge=2, le=100)] = 4
    """Number of such files per container, 2 to 100. With the default a container's spool takes at most 64 MiB."""

    shm_size: Annotated[Bytes, Field(ge=4096)] = 64 << 20
    """Bytes of a pod's /dev/shm. The default is what all container runtimes give."""

    pids_limit: Annotated[Count, Field(ge=0)] = 0
    """Processes and threads that a container may have; 0 is no limit. The default leaves it to the kubelet, which
    limits pods."""

    layer_budget: Annotated[Count, Field(ge=0, le=100)] = 2
    """Percent of a core that counting the sizes of containers' writable layers may take while somebody asks for
    statistics; with 0 each is looked into once, a little. The default counts 100,000 files in 20 s."""

    event_backlog: Annotated[Bytes, Field(ge=1 << 20)] = 16 << 20
    """Bytes of events that a listener of GetContainerEvents may leave unread before its stream is cut, at least 1
    MiB. Above a quarter of it only the newest event of each object is kept. The default holds some ten thousand."""

    @property
    def socket_path(self) -> Path:
        """Where `listen` lies."""
        return Path(self.listen.removeprefix(UNIX))

    @property
    def desk_path(self) -> Path:
        """Where runtime fronts ask."""
        return self.run_dir / DESK

    @property
    def engine_is_simulated(self) -> bool:
        """Whether `engine` is the one in memory."""
        return self.engine == SIMULATED

    @property
    def engine_socket(self) -> Path:
        """Where `engine` listens; meaningless for the simulated one."""
        return Path(self.engine.removeprefix(UNIX))
