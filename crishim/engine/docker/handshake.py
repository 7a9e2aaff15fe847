"""The first words with an engine: which API version both speak, what it is, and whether it can carry pods.

Pure: the answers of `/version` and `/info` go in, facts or EngineUnsuitable come out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from crishim.engine.twins import split_twins
from crishim.engine.values import EngineFacts
from crishim.errors import EngineUnsuitable

OLDEST_API = (1, 41)
"""Docker Engine 20.10."""
NEWEST_API = (1, 56)
"""The newest whose changes were read for what is sent and read here."""

CONTAINERD_STORE = "io.containerd.snapshotter.v1"
"""The engine's word for images kept in containerd."""

_KNOWN_SECURITY = frozenset({"seccomp", "apparmor", "selinux", "cgroupns"})


def negotiate(version: Mapping[str, Any]) -> tuple[int, int]:
    """The highest API version that both know. EngineUnsuitable, with both ranges, if there is none."""
    newest = _parse_version(version.get("ApiVersion"))
    oldest = _parse_version(version.get("MinAPIVersion") or version.get("ApiVersion"))
    common = min(newest, NEWEST_API)
    if common < max(oldest, OLDEST_API):
        raise EngineUnsuitable(
            f"no API version in common: engine {version.get('Version', '?')} speaks {_span(oldest, newest)}, "
            f"crishim {_span(OLDEST_API, NEWEST_API)}"
        )
    return common


def refuse_unsuitable(version: Mapping[str, Any], info: Mapping[str, Any], pid: int, kernel: str) -> None:
    """Raise EngineUnsuitable for an engine that cannot carry pods, with what is wrong and what to do.

    `pid` is the socket's owner (0: not visible), `kernel` this machine's release as `uname -r` shows it.
    """
    components = " ".join(str(c.get("Name", "")) for c in version.get("Components") or ())
    options = _security_options(info)
    system = str(info.get("OperatingSystem", ""))
    operating_system = str(version.get("Os") or info.get("OSType") or "linux")
    reason = ""
    if "podman" in components.lower():
        reason = "Podman is not a Docker Engine: pods need its events, wait conditions and joined namespaces"
    elif operating_system != "linux":
        reason = f"an engine for {operating_system} containers cannot carry Linux pods"
    elif "Docker Desktop" in system:
        reason = "Docker Desktop runs containers in a virtual machine, where their namespaces cannot be reached"
    elif "rootless" in options:
        reason = "a rootless engine cannot give pods their cgroups and networks; run dockerd as root"
    elif "userns" in options:
        reason = "userns-remap shifts the owners of every volume; remove it from the engine's daemon.json"
    elif pid == 0:
        reason = "the engine's processes are not visible in /proc here; run crishim in the host's PID namespace"
    elif str(info.get("KernelVersion", kernel)) != kernel:
        reason = f"it runs on another machine: kernel {info['KernelVersion']}, and here {kernel}"
    if reason:
        raise EngineUnsuitable(f"this engine cannot carry pods: {reason}")


def facts_from(version: Mapping[str, Any], info: Mapping[str, Any], api: tuple[int, int], pid: int) -> EngineFacts:
    """What the rest of crishim may know of the engine."""
    driver = str(info.get("CgroupDriver", "none"))
    status = {str(row[0]): str(row[1]) for row in info.get("DriverStatus") or () if len(row) == 2}
    listed = info.get("Runtimes") or {}
    runtimes, twins = split_twins(listed)
    default = str(info.get("DefaultRuntime", ""))
    return EngineFacts(
        name="docker",
        version=str(version.get("Version", "")),
        api_version=api,
        cgroup_driver="systemd" if driver == "systemd" else "cgroupfs" if driver == "cgroupfs" else "none",
        cgroup_version=2 if str(info.get("CgroupVersion", "1")) == "2" else 1,
        data_root=str(info.get("DockerRootDir", "")),
        storage_driver=str(info.get("Driver", "")),
        containerd_store=status.get("driver-type") == CONTAINERD_STORE,
        runtimes=runtimes,
        default_runtime=next((runtime for runtime, twin in twins.items() if twin == default), default),
        security=_security_options(info) & _KNOWN_SECURITY,
        architecture=str(version.get("Arch", "")),
        kernel=str(version.get("KernelVersion", "")),
        live_restore=bool(info.get("LiveRestoreEnabled")),
        experimental=bool(info.get("ExperimentalBuild")),
        readonly_recursion=_recursing(listed),
        cdi=bool(info.get("CDISpecDirs")),
        twins={runtime: str(listed[twin].get("path") or "") for runtime, twin in twins.items()},
        programs={runtime: program for runtime in runtimes if (program := _program(listed[runtime]))},
        daemon_pid=pid,
    )


def _program(runtime: Mapping[str, Any]) -> tuple[str, ...]:
    """A runtime's program and arguments; none of what is told by the type of a shim (engines of 23 and newer)."""
    if runtime.get("runtimeType") or not runtime.get("path"):
        return ()
    return (str(runtime["path"]), *map(str, runtime.get("runtimeArgs") or ()))


def _recursing(runtimes: Mapping[str, Any]) -> frozenset[str]:
    """Names of runtimes whose own word (`features` of the OCI runtime-spec) has the mount option `rro`.

    Engines tell it from API 1.44 on; of a runtime that does not know the word, they tell nothing.
    """
    found = set()
    for name, runtime in runtimes.items():
        status = (runtime.get("status") or {}).get("org.opencontainers.runtime-spec.features")
        try:
            options = json.loads(status).get("mountOptions") if status else None
        except (ValueError, AttributeError):
            options = None
        if isinstance(options, list) and "rro" in options:
            found.add(name)
    return frozenset(found)


def _security_options(info: Mapping[str, Any]) -> frozenset[str]:
    """Names out of `name=seccomp,profile=default`."""
    return frozenset(str(o).removeprefix("name=").split(",")[0] for o in info.get("SecurityOptions") or ())


def _parse_version(text: object) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)\.(\d+)", str(text))
    if match is None:
        raise EngineUnsuitable(f"what listens there is no Docker Engine: its API version is {text!r}")
    return int(match[1]), int(match[2])


def _span(oldest: tuple[int, int], newest: tuple[int, int]) -> str:
    return f"{oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"
