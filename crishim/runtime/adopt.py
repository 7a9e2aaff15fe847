"""Objects that we have no record of: read from the engine's labels, so that running pods are adopted, not restarted.

They come from a damaged or lost checkpoint store, from a crash between the engine's create and our record, or from
another shim of the same convention (dockershim, cri-dockerd).
"""

from __future__ import annotations

import logging
from dataclasses import replace

from crishim.checkpoint.record import ContainerRecord, Phase, SandboxRecord
from crishim.engine.values import ContainerPhase, EngineContainer
from crishim.model import (
    LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext,
    NamespaceMode,
    NamespaceOption,
    PodSandboxConfig,
)
from crishim.network.addresses import read_addresses
from crishim.network.api import Attached
from crishim.runtime import labels

log = logging.getLogger(__name__)


def adopt_sandbox(live: EngineContainer, netns_path: str, *, has_addresses: bool) -> SandboxRecord | None:
    """A record for a sandbox that has none; None if its labels do not tell whose it is.

    A record is written before the sandbox starts, so one that runs without is of a lost record or another shim: it is
    READY with the addresses that it has. Without any it was never attached, unless `has_addresses` is False: pods of
    this network have none.
    """
    config = labels.parse_sandbox_config(live.labels, live.name)
    if config is None:
        log.warning("container %s (%s) calls itself a pod sandbox but not of which pod", live.id[:13], live.name)
        return None
    config = _with_namespaces(config, live)
    host_network = live.network_mode == "host"
    ips = () if host_network or not live.pid else read_addresses(live.pid)
    ready = live.phase is ContainerPhase.RUNNING and (host_network or bool(ips) or not has_addresses)
    network = None if host_network else Attached(backend="", ips=ips)
    return SandboxRecord(
        id=live.id,
        phase=Phase.READY if ready else Phase.STOPPED,
        config=config,
        runtime_handler=live.labels.get(labels.HANDLER, ""),
        created_at=live.created_at,
        netns_path="" if host_network else netns_path,
        image_ref=live.image_id,
        started_at=live.started_at,
        network=network,
    )


def adopt_container(live: EngineContainer, image_ref: str) -> ContainerRecord | None:
    """A record for a container that has none; None if its labels do not tell what it is."""
    config = labels.parse_container_config(live.labels, live.name, live.image)
    if config is None:
        log.warning("container %s (%s) calls itself a pod's container but not which", live.id[:13], live.name)
        return None
    return ContainerRecord(id=live.id, config=config, image_ref=image_ref, created_at=live.created_at)


def _with_namespaces(config: PodSandboxConfig, live: EngineContainer) -> PodSandboxConfig:
    """Where the request is not known, its namespace options are read from how the engine runs the sandbox."""
    if config.linux is not None:
        return config
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
