"""Objects that we have no record of: read from the engine's labels, so that running pods are adopted, not restarted.

They come from a damaged or lost checkpoint store, from a crash between the engine's create and our record, or from
another shim of the same convention (dockershim, cri-dockerd).
"""

from __future__ import annotations

import logging
from dataclasses import replace

from crishim.checkpoint.record import Carrier, ContainerRecord, Phase, SandboxRecord
from crishim.engine.values import ContainerPhase, EngineContainer
from crishim.model import (
    LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext,
    NamespaceMode,
    NamespaceOption,
    PodSandboxConfig,
)
from crishim.network.api import Attached
from crishim.runtime import labels

log = logging.getLogger(__name__)


def adopt_sandbox(
    live: EngineContainer, netns_path: str, ips: tuple[str, ...], *, has_addresses: bool
) -> SandboxRecord | None:
    """A record for a sandbox that has none; None if its labels do not tell whose it is.

    A record is written before the sandbox starts. So one that never started is left by a RunPodSandbox that died, and
    one that runs is of a lost record or another shim: it is READY with the addresses `ips` that it has. Without any it
    was never attached, unless `has_addresses` is False: pods of this network have none.
    """
    config = labels.parse_sandbox_request(live.labels) or _conventional(live)
    if config is None:
        log.warning("container %s (%s) calls itself a pod sandbox but not of which pod", live.id[:13], live.name)
        return None
    host_network = live.network_mode == "host"
    attached = host_network or bool(ips) or not has_addresses
    phase = Phase.STOPPED
    if live.phase is ContainerPhase.CREATED:
        phase = Phase.CREATING
    elif live.phase is ContainerPhase.RUNNING and attached:
        phase = Phase.READY
    return SandboxRecord(
        id=live.id,
        phase=phase,
        config=config,
        runtime_handler=live.labels.get(labels.HANDLER, ""),
        created_at=live.created_at,
        netns_path="" if host_network else netns_path,
        image_ref=live.image_id,
        started_at=live.started_at,
        network=None if host_network else Attached(backend="", ips=ips),
    )


def adopt_anchored(
    live: EngineContainer, sandbox_id: str, netns_path: str, ips: tuple[str, ...]
) -> SandboxRecord | None:
    """The same for one that is anchored, as far as its object tells; `settle_anchored` says how far its life came."""
    config = labels.parse_sandbox_request(live.labels)
    if config is None:
        log.warning("container %s (%s) calls itself a pod sandbox but not of which pod", live.id[:13], live.name)
        return None
    host_network = live.network_mode == "host"
    return SandboxRecord(
        id=sandbox_id,
        phase=Phase.CREATING,
        config=config,
        runtime_handler=live.labels.get(labels.HANDLER, ""),
        created_at=live.created_at,
        netns_path="" if host_network else netns_path,
        image_ref=live.image_id,
        network=None if host_network else Attached(backend="", ips=ips),
        carrier=Carrier.ANCHORED,
        object_id=live.id,
    )


def settle_anchored(record: SandboxRecord, *, held: bool, has_addresses: bool) -> SandboxRecord:
    """How far the life of an adopted pod came.

    A record comes before the namespaces, so that where these are held a record was lost, and the pod is READY if it was
    attached; where they are not, it never came so far, or has ended with its host.
    """
    attached = record.network is None or bool(record.network.ips) or not has_addresses
    return replace(record, phase=Phase.READY) if held and attached else record


def lost_sandbox(container: EngineContainer, sandbox_id: str, netns_path: str) -> SandboxRecord | None:
    """A record for a sandbox that neither engine nor store knows any more, from one of its containers.

    It stands for what is left of the pod, so that it is listed, stopped and removed: containers, pin, attachment.
    None if the container does not tell whose it is.
    """
    pod = labels.parse_pod(container.labels, container.name)
    if pod is None or not sandbox_id:
        log.warning("container %s (%s) does not tell whose it is", container.id[:13], container.name)
        return None
    return SandboxRecord(
        id=sandbox_id,
        phase=Phase.STOPPED,
        config=PodSandboxConfig(metadata=pod, labels=labels.make_pod_labels(pod)),
        created_at=container.created_at,
        netns_path=netns_path,
        network=Attached(backend=""),
    )


def unseen_container(record: ContainerRecord) -> EngineContainer:
    """What stands for the engine's answer about a container that it lists and cannot tell of."""
    return EngineContainer(
        id=record.id,
        name="",
        image_id=record.image_ref,
        image=record.config.image.image if record.config.image else "",
        phase=ContainerPhase.CREATED,
        created_at=record.created_at,
        labels={},
    )


def adopt_container(live: EngineContainer, image_ref: str) -> ContainerRecord | None:
    """A record for a container that has none; None if its labels do not tell what it is."""
    config = labels.parse_container_config(live.labels, live.name, live.image)
    if config is None:
        log.warning("container %s (%s) calls itself a pod's container but not which", live.id[:13], live.name)
        return None
    return ContainerRecord(id=live.id, config=config, image_ref=image_ref, created_at=live.created_at)


def _conventional(live: EngineContainer) -> PodSandboxConfig | None:
    """Where the request is not known, its namespace options are read from how the engine runs the sandbox."""
    config = labels.parse_sandbox_convention(live.labels, live.name)
    if config is None:
        return None
    options = NamespaceOption(
        network=NamespaceMode.NODE if live.network_mode == "host" else NamespaceMode.POD,
        ipc=NamespaceMode.NODE if live.ipc_mode == "host" else NamespaceMode.POD,
        pid=NamespaceMode.NODE if live.pid_mode == "host" else NamespaceMode.CONTAINER,
    )
    linux = LinuxPodSandboxConfig(
        cgroup_parent=live.cgroup_parent,
        security_context=LinuxSandboxSecurityContext(namespace_options=options, privileged=live.privileged),
    )
    return replace(config, linux=linux)
