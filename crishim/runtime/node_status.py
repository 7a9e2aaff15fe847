"""What the node says of itself: Version, Status, RuntimeConfig, UpdateRuntimeConfig; also while the engine is away."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from crishim.checkpoint.record import Carrier
from crishim.engine.values import EngineFacts
from crishim.model import CgroupDriver
from crishim.runtime.anchored.carrier import missing_front
from crishim.runtime.core import Runtime
from crishim.runtime.host import Host
from crishim.runtime.last_seen import LastSeen
from crishim.runtime.spec.ways import Beyond, make_ways

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
    elif facts is not None and rt.settings.carrier == "anchored" and not rt.host().twin_of(facts.default_runtime):
        runtime_ready = Condition("RuntimeReady", False, "RuntimeFrontMissing", missing_front(facts.default_runtime))
    # Ready, it may still have a word for people: a configuration that cannot be used, and was passed over.
    network_ready = Condition("NetworkReady", True, network.reason, network.message)
    if not network.ready:
        network_ready = Condition(
            "NetworkReady", False, "NetworkPluginNotReady", f"{network.reason}: {network.message}"
        )
    return NodeStatus(
        conditions=(runtime_ready, network_ready),
        handlers=_handlers(facts, rt.host(), anchored=rt.settings.carrier != "pause") if facts else (),
        supplemental_groups_policy=facts is not None,
        mount_options=facts is not None and _carries_mount_options(facts, rt.host()),
        info=_info(rt, facts),
    )


def _handlers(facts: EngineFacts, host: Host, *, anchored: bool) -> tuple[HandlerFeatures, ...]:
    """The handlers with what each is found able to do; the nameless one is the engine's default runtime."""
    runtimes = [("", facts.default_runtime), *((name, name) for name in sorted(facts.runtimes))]
    return tuple(
        HandlerFeatures(
            name,
            recursive_read_only_mounts=_recurses(facts, host, runtime),
            user_namespaces=anchored and make_ways(facts, host, runtime).open(Beyond.USER_NAMESPACE),
        )
        for name, runtime in runtimes
    )


def _recurses(facts: EngineFacts, host: Host, runtime: str) -> bool:
    ways = make_ways(facts, host, runtime)
    return ways.recursive or ways.open(Beyond.RECURSIVE_READ_ONLY)


def _carries_mount_options(facts: EngineFacts, host: Host) -> bool:
    """CRI has one word for all handlers (`RuntimeFeatures.mount_options`): it is about the default one. Where another
    one cannot, its containers are refused by name."""
    return make_ways(facts, host, facts.default_runtime).open(Beyond.MOUNT_OPTIONS)


def _info(rt: Runtime, facts: EngineFacts | None) -> dict[str, object]:
    host = rt.host()
    info: dict[str, object] = {
        "network": {"backend": rt.network.name},
        "carrier": _carrier(rt, facts),
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
        # As containerd tells it of itself: tools look beside this folder for what file systems of containers can do.
        info["config"] = {"stateDir": facts.data_root}
    return info


def _carrier(rt: Runtime, facts: EngineFacts | None) -> dict[str, object]:
    """What is set, what new pods get with each handler, and what those have that are listed."""
    runtimes = facts.runtimes if facts else ()
    anchored = {runtime for runtime in runtimes if rt.host().twin_of(runtime) and rt.settings.carrier != "pause"}
    return {
        "setting": rt.settings.carrier,
        "handlers": {name: Carrier.ANCHORED if name in anchored else Carrier.PAUSE for name in runtimes},
        "pods": dict(Counter(sandbox.record.carrier for sandbox in rt.index.sandboxes())),
        "anchor": {"name": rt.anchor.name, "id": rt.anchor.id},
    }


def _seen(rt: Runtime) -> LastSeen:
    facts = rt.link.last_facts
    return LastSeen(facts.version, facts.cgroup_driver) if facts else rt.last_seen


def _semver(text: str) -> str:
    match = _SEMVER.match(text)
    if match is None:
        return _UNKNOWN_VERSION
    rest = match[4] or ""
    return f"{int(match[1])}.{int(match[2])}.{int(match[3] or 0)}{rest if len(rest) > 1 else ''}"
