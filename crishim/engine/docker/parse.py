"""The engine's JSON to our values: containers and images as inspect shows them.

Lenient with what an engine leaves out (newer ones omit empty fields), strict with what must be there: a missing id is a
KeyError, which callers turn into an error of the call.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from typing import Any, Literal

from aiodocker.containers import DockerContainer

from crishim.engine.docker.create import NO_MEMORY_LIMIT
from crishim.engine.values import (
    ContainerPhase,
    EngineContainer,
    EngineImage,
    EngineMount,
    EngineResources,
    ListedContainer,
)

_PHASES: Mapping[str, ContainerPhase] = {
    "created": ContainerPhase.CREATED,
    "running": ContainerPhase.RUNNING,
    "paused": ContainerPhase.RUNNING,
    # between two runs of a restart policy, which is never ours: no process now
    "restarting": ContainerPhase.EXITED,
    "exited": ContainerPhase.EXITED,
    # a removal that failed half way; removing it again finishes it
    "dead": ContainerPhase.EXITED,
    "removing": ContainerPhase.REMOVING,
}
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))")
_PROPAGATION: Mapping[str, Literal["rprivate", "rslave", "rshared"]] = {
    "rslave": "rslave",
    "slave": "rslave",
    "rshared": "rshared",
    "shared": "rshared",
}


def _log_path_to_be(data: Mapping[str, Any], data_root: str) -> str:
    """Where the engine will write the log: it says so only from the first start on."""
    driver = (data["HostConfig"].get("LogConfig") or {}).get("Type")
    return log_path_of_new(data["Id"], data_root) if driver == "json-file" else ""


def log_path_of_new(container_id: str, data_root: str) -> str:
    """Where the engine keeps the output of a container with the driver json-file."""
    return f"{data_root}/containers/{container_id}/{container_id}-json.log" if data_root else ""


def container_from(data: Mapping[str, Any], data_root: str = "") -> EngineContainer:
    """A container from `GET /containers/{id}/json`."""
    state, config, host = data["State"], data["Config"], data["HostConfig"]
    phase = _PHASES[state["Status"]]
    started, finished = nanoseconds(state.get("StartedAt")), nanoseconds(state.get("FinishedAt"))
    if phase is ContainerPhase.RUNNING:
        finished = 0  # the engine keeps the end of the run before
    elif finished:
        # Of a process that ends at once the engine notes the end before the start.
        finished = max(finished, started)
    return EngineContainer(
        id=data["Id"],
        name=data["Name"].removeprefix("/"),
        image_id=data["Image"],
        image=config["Image"],
        phase=phase,
        paused=bool(state.get("Paused")),
        pid=int(state.get("Pid") or 0),
        exit_code=int(state.get("ExitCode") or 0),
        error=state.get("Error") or "",
        oom_killed=bool(state.get("OOMKilled")),
        created_at=nanoseconds(data["Created"]),
        started_at=started,
        finished_at=finished,
        labels=dict(config.get("Labels") or {}),
        log_path=data.get("LogPath") or _log_path_to_be(data, data_root),
        log_driver=(host.get("LogConfig") or {}).get("Type") or "",
        resolv_conf_path=data.get("ResolvConfPath") or "",
        hosts_path=data.get("HostsPath") or "",
        network_mode=host.get("NetworkMode") or "",
        ipc_mode=host.get("IpcMode") or "",
        pid_mode=host.get("PidMode") or "",
        runtime=host.get("Runtime") or "",
        cgroup_parent=host.get("CgroupParent") or "",
        user=config.get("User") or "",
        tty=bool(config.get("Tty")),
        stdin=bool(config.get("OpenStdin")),
        stdin_once=bool(config.get("StdinOnce")),
        privileged=bool(host.get("Privileged")),
        stop_signal=config.get("StopSignal") or "",
        env=tuple(config.get("Env") or ()),
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
        working_dir=config.get("WorkingDir") or "",
        mounts=_mounts(data, host),
        resources=resources_from(host),
        oom_score_adj=int(host.get("OomScoreAdj") or 0),
        image_layers=_image_layers(data.get("GraphDriver") or {}),
        merged_dir=((data.get("GraphDriver") or {}).get("Data") or {}).get("MergedDir") or "",
    )


def listed_from(row: DockerContainer) -> ListedContainer:
    """A container from `GET /containers/json`."""
    return ListedContainer(
        id=row.id,
        names=tuple(name.removeprefix("/") for name in row["Names"] or ()),
        phase=_PHASES.get(row["State"]),
        paused=row["State"] == "paused",
    )


def _image_layers(driver: Mapping[str, Any]) -> tuple[str, ...]:
    """The folders below a container's own layer. The first is the engine's: empty files to mount its own on."""
    told = driver.get("Data") or {}
    own, lower = told.get("UpperDir") or "", (told.get("LowerDir") or "").split(":")
    if driver.get("Name") != "overlay2" or lower[0] != own.removesuffix("/diff") + "-init/diff":
        return ()
    return tuple(lower[1:])


def resources_from(host: Mapping[str, Any]) -> EngineResources:
    """The limits in force, from a HostConfig; 0 where there is none, and for swap -1 as the engine says it."""

    def limit(name: str) -> int:
        value = int(host.get(name) or 0)
        return value if 0 < value < NO_MEMORY_LIMIT else 0

    swap = int(host.get("MemorySwap") or 0)
    return EngineResources(
        cpu_shares=limit("CpuShares"),
        cpu_quota=limit("CpuQuota"),
        cpu_period=limit("CpuPeriod"),
        cpuset_cpus=host.get("CpusetCpus") or "",
        cpuset_mems=host.get("CpusetMems") or "",
        memory=limit("Memory"),
        memory_swap=swap if swap < NO_MEMORY_LIMIT else -1,
        pids_limit=limit("PidsLimit"),
    )


def _mounts(data: Mapping[str, Any], host: Mapping[str, Any]) -> tuple[EngineMount, ...]:
    """Typed mounts as they were asked for, then binds that were given as strings (by another shim)."""
    found: dict[str, EngineMount] = {}
    for mount in host.get("Mounts") or ():
        kind, target = mount.get("Type"), mount["Target"]
        if kind == "bind":
            options = mount.get("BindOptions") or {}
            found[target] = EngineMount(
                source=mount["Source"],
                target=target,
                readonly=bool(mount.get("ReadOnly")),
                recursive_readonly=bool(options.get("ReadOnlyForceRecursive")),
                propagation=_PROPAGATION.get(options.get("Propagation", ""), "rprivate"),
            )
        elif kind == "image":
            subpath = (mount.get("ImageOptions") or {}).get("Subpath") or ""
            found[target] = EngineMount(
                source=mount["Source"], target=target, readonly=True, image=True, image_subpath=subpath
            )
    for point in data.get("Mounts") or ():
        if point.get("Type") == "bind" and point["Destination"] not in found:
            found[point["Destination"]] = EngineMount(
                source=point["Source"],
                target=point["Destination"],
                readonly=not point.get("RW", True),
                propagation=_PROPAGATION.get(point.get("Propagation", ""), "rprivate"),
            )
    return tuple(found.values())


def image_from(data: Mapping[str, Any]) -> EngineImage:
    """An image from `GET /images/{name}/json`."""
    config = data.get("Config") or {}
    return EngineImage(
        id=data["Id"],
        # the containerd store lists names by digest there, too
        tags=tuple(name for name in _names(data.get("RepoTags")) if "@" not in name),
        digests=_names(data.get("RepoDigests")),
        size=int(data.get("Size") or data.get("VirtualSize") or 0),
        user=config.get("User") or "",
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
        env=tuple(config.get("Env") or ()),
        working_dir=config.get("WorkingDir") or "",
        labels=dict(config.get("Labels") or {}),
        volumes=tuple(sorted(config.get("Volumes") or ())),
        stop_signal=config.get("StopSignal") or "",
        created_at=nanoseconds(data.get("Created")),
    )


def _names(names: list[str] | None) -> tuple[str, ...]:
    """Without `<none>:<none>`, with which older engines fill the place."""
    return tuple(name for name in names or () if not name.startswith("<none>"))


def nanoseconds(text: str | None) -> int:
    """Nanoseconds since the epoch of an RFC 3339 time; 0 for none and for the engine's zero time (year 1)."""
    match = _TIME.fullmatch(text or "")
    if match is None:
        return 0
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    seconds = calendar.timegm((year, month, day, hour, minute, second)) if year > 1 else 0
    if match[8]:
        offset = (int(match[9]) * 60 + int(match[10])) * 60
        seconds += -offset if match[8] == "+" else offset
    return max(seconds * 1_000_000_000 + int((match[7] or "").ljust(9, "0")), 0) if year > 1 else 0
