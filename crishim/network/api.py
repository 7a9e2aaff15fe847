"""`PodNetwork`, the interface every pod network backend fulfils, and the values that cross it.

How a caller uses it, so that no address is ever lost (CNI specification: a runtime must not ADD twice without a DEL,
and must DEL with the configuration and arguments it gave to ADD):

    planned = network.plan(pod)                       # decide, no I/O but a cheap stat
    checkpoint(planned)                               # before anything is done
    attached = await network.attach(pod, planned)     # on any failure, cancellation too: detach(pod, planned)
    checkpoint(attached)
    ...
    await network.detach(pod, attached)               # repeat until it returns, in this or a later process

No lock is to be held while `attach` runs: a plugin may ask the runtime about the pod.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crishim.model import DNSConfig, PortMapping

DEFAULT_INTERFACE = "eth0"
"""Name of a pod's interface inside its namespace; the kubelet's stats look for this name first."""


@dataclass(frozen=True, kw_only=True)
class PodAttachment:
    """The pod to be attached: who it is, where its namespace is pinned, and what it asked of the network."""

    sandbox_id: str
    """Id of the sandbox; CNI_CONTAINERID and K8S_POD_INFRA_CONTAINER_ID."""
    netns_path: str
    """Path of the pinned namespace; may be gone at detach (CNI DEL: CNI_NETNS may be empty then)."""
    name: str
    namespace: str
    uid: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Pod annotations; `kubernetes.io/ingress-bandwidth` and `kubernetes.io/egress-bandwidth` are read."""
    port_mappings: tuple[PortMapping, ...] = ()
    """PodSandboxConfig.port_mappings; entries with host_port 0 ask for nothing."""
    dns: DNSConfig | None = None
    cgroup_parent: str = ""
    """LinuxPodSandboxConfig.cgroup_parent as the kubelet wrote it, for plugins that declare `cgroupPath`."""


@dataclass(frozen=True)
class Attached:
    """The record of one attachment: all that check and detach need, in a later process too.

    Made by `PodNetwork.plan` without a result, completed by `PodNetwork.attach`.  All fields are text, to be stored
    as they are.
    """

    backend: str
    """`PodNetwork.name` of the backend that made the record."""
    config: str = ""
    """The network configuration used (JSON text of a conflist), "" where the backend has none."""
    args: str = ""
    """JSON text of the arguments given beside the configuration; the same on every verb, whatever changes later."""
    interface: str = DEFAULT_INTERFACE
    """Interface name in the pod's namespace."""
    result: str = ""
    """JSON text of ADD's result; "" until ADD answered, or where the backend gives none."""
    ips: tuple[str, ...] = ()
    """The pod's addresses without prefix length, primary first."""


@dataclass(frozen=True)
class NetworkStatus:
    """Whether new pods can be attached; becomes the condition NetworkReady of the CRI's Status."""

    ready: bool
    reason: str = ""
    """One CamelCase word (`NetworkPluginNotReady`); when ready "" where nothing is amiss."""
    message: str = ""
    """For people: what is missing and where; when ready what was passed over, "" where nothing was."""


class PodNetwork(ABC):
    """One way to give pods a network.  Host-network pods never come here."""

    name: str
    """Backend name as in the configuration: `cni`, `none`, …"""

    @abstractmethod
    def status(self) -> NetworkStatus:
        """Say whether `plan` would succeed now.  Cheap (a stat at most), never raises."""

    @abstractmethod
    def plan(self, pod: PodAttachment) -> Attached:
        """Return the record of what `attach` is about to do, for the caller to checkpoint first.

        Raises NetworkNotReady when there is no usable configuration, InvalidArgument when the pod asks for something
        malformed.  Changes nothing.
        """

    @abstractmethod
    async def attach(self, pod: PodAttachment, planned: Attached) -> Attached:
        """Attach the pod as planned; return `planned` completed with result and addresses.

        Raises NetworkFailed.  After an error or a cancellation parts may be in place: the caller must `detach`.
        """

    @abstractmethod
    async def detach(self, pod: PodAttachment, attached: Attached | None) -> None:
        """Undo an attach that was completed, failed, was cut off, or never began; idempotent.

        `attached` None means that the record was lost: the backend uses what it would plan now, and does nothing if
        that is nothing.  Works with the namespace gone and the configuration folder emptied.  Raises NetworkFailed when
        something may be left; then call again.
        """

    async def settle(self, sandbox_id: str) -> None:
        """Return when what `detach` took away is gone for good.

        For backends whose `detach` answers while the kernel still frees something; called before the sandbox is
        reported removed.  Raises NetworkFailed when something may be left; then detach again.
        """
        return

    @abstractmethod
    async def check(self, pod: PodAttachment, attached: Attached) -> None:
        """Verify that a completed attachment is as it was made.  Raises NetworkFailed naming what is not."""

    @abstractmethod
    async def gc(self, valid: Mapping[str, Attached]) -> None:
        """Release what belongs to no attachment in `valid` (sandbox id → record).  Raises NetworkFailed."""

    @abstractmethod
    def set_pod_cidr(self, cidr: str) -> None:
        """Take the pod range(s), comma separated, of UpdateRuntimeConfig; "" is ignored.  Raises InvalidArgument."""

    @abstractmethod
    async def start(self) -> None:
        """Prepare; called once before any other async method.  Raises NetworkFailed."""

    @abstractmethod
    async def close(self) -> None:
        """Release resources of this process; attachments stay."""
