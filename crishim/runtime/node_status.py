"""What the node says of itself: Version, Status, RuntimeConfig, UpdateRuntimeConfig; also while the engine is away."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from crishim.engine.features import recurses_readonly
from crishim.engine.values import EngineFacts
from crishim.model import CgroupDriver
from crishim.runtime.core import Runtime
from crishim.runtime.last_seen import LastSeen

RUNTIME_NAME = "docker"
"""Pods then carry `docker://` container ids, as log agents and moves in place from other shims expect."""
_UNKNOWN_VERSION = "0.0.0-unknown"
_SEMVER = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?([-+][0-9A-Za-z.+-]*)?")


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """CRI `VersionResponse` as far as it is the engine's."""

    runtime_name: str
    runtime_version: str


@dataclass(frozen=True, slots=True)
class Condition:
    """CRI `RuntimeCondition`."""

    type: str
    status: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class HandlerFeatures:
    """CRI `RuntimeHandler`: the empty name is the default one. A feature is claimed only if it is enforced."""

    name: str
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """CRI `StatusResponse`."""

    conditions: tuple[Condition, ...]
    handlers: tuple[HandlerFeatures, ...] = ()
    supplemental_groups_policy: bool = False
    mount_options: bool = False
    user_namespaces_host_network: bool = False
    info: dict[str, object] = field(default_factory=dict)
    """For verbose answers: name to a value that can be shown as JSON."""


def version(rt: Runtime) -> VersionInfo:
    """The engine's version as valid semantic version, the last one seen while it is away."""
    return VersionInfo(RUNTIME_NAME, _semver(_seen(rt).version))


def runtime_config(rt: Runtime) -> CgroupDriver | None:
    """The cgroup driver; None while it was never seen: the kubelet keeps the answer, so it must not be guessed."""
    return {"systemd": CgroupDriver.SYSTEMD, "cgroupfs": CgroupDriver.CGROUPFS}.get(_seen(rt).cgroup_driver)


def set_pod_cidr(rt: Runtime, cidr: str) -> None:
    """UpdateRuntimeConfig; empty is ignored. Raises InvalidArgument."""
    rt.network.set_pod_cidr(cidr)


def node_status(rt: Runtime) -> NodeStatus:
    """Conditions with their reasons, handlers and features. Makes no engine call and never fails."""
    error, facts = rt.link.error, rt.link.last_facts
    network = rt.network.status()
    runtime_ready = Condition("RuntimeReady", error is None)
    if error is not None:
        runtime_ready = Condition("RuntimeReady", False, "DockerDaemonNotReady", str(error))
    network_ready = Condition("NetworkReady", network.ready)
    if not network.ready:
        network_ready = Condition(
            "NetworkReady", False, "NetworkPluginNotReady", f"{network.reason}: {network.message}"
        )
    return NodeStatus(
        conditions=(runtime_ready, network_ready),
        handlers=_handlers(facts) if facts else (),
        supplemental_groups_policy=facts is not None,
        info=_info(rt, facts),
    )


def _handlers(facts: EngineFacts) -> tuple[HandlerFeatures, ...]:
    """The handlers with what each is found able to do; the nameless one is the engine's default runtime."""
    runtimes = [("", facts.default_runtime), *((name, name) for name in sorted(facts.runtimes))]
    return tuple(
        HandlerFeatures(name, recursive_read_only_mounts=recurses_readonly(facts, runtime))
        for name, runtime in runtimes
    )


def _info(rt: Runtime, facts: EngineFacts | None) -> dict[str, object]:
    host = rt.host()
    info: dict[str, object] = {
        "network": {"backend": rt.network.name},
        "host": {"oomScoreAdjFloor": host.oom_floor, "remarks": [host.remark] if host.remark else []},
        "logs": dict(rt.logs.state()),
        "index": {"sandboxes": len(list(rt.index.sandboxes())), "containers": len(list(rt.index.containers()))},
    }
    if facts is not None:
        info["engine"] = {
            "name": facts.name,
            "version": facts.version,
            "apiVersion": ".".join(map(str, facts.api_version)),
            "cgroupDriver": facts.cgroup_driver,
            "cgroupVersion": facts.cgroup_version,
            "storageDriver": facts.storage_driver,
            "runtimes": list(facts.runtimes),
            "defaultRuntime": facts.default_runtime,
            "security": sorted(facts.security),
            "liveRestore": facts.live_restore,
        }
    return info


def _seen(rt: Runtime) -> LastSeen:
    facts = rt.link.last_facts
    return LastSeen(facts.version, facts.cgroup_driver) if facts else rt.last_seen


def _semver(text: str) -> str:
    match = _SEMVER.match(text)
    if match is None:
        return _UNKNOWN_VERSION
    rest = match[4] or ""
    return f"{int(match[1])}.{int(match[2])}.{int(match[3] or 0)}{rest if len(rest) > 1 else ''}"
