"""ContainerSpec to the body of `POST /containers/create`.

Everything that the daemon's configuration (daemon.json) has a default for is said explicitly: init, log driver with all
its options, IPC and cgroup namespace modes, shm size, no-new-privileges, runtime, restart policy. What cannot be undone
from here are default ulimits and `max-buffer-size` among its log-opts (docs/decisions/engine-daemon-defaults.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from crishim.engine.docker.references import is_image_id
from crishim.engine.features import Feature, has, needs
from crishim.engine.values import ContainerSpec, EngineFacts, EngineMount, EngineResources, LogSpool
from crishim.errors import ImageVolumeMountFailed, RROUnsupported, UnsupportedField

_NO_SWAP_LIMIT = -1
NO_MEMORY_LIMIT = 1 << 60
"""Limits from here on are none. An update has no other way to take a limit away: 0 leaves it, and -1 is refused for
memory and not passed on for swap. Swap stays above memory, because version 2 of cgroups limits the difference."""
_FEWEST_DIGITS = 16
"""Of an image's id, as many as certainly mean no other image."""
_USUAL_SHARES = 1024
"""What the kernel gives a group that nobody set shares for (cgroup v1 scale)."""
_MOST_PROCESSES = 1 << 22
"""The highest number of processes that Linux can have (PID_MAX_LIMIT)."""


def container_body(spec: ContainerSpec, facts: EngineFacts) -> dict[str, Any]:
    """The JSON of a new container. Raises UnsupportedField, RROUnsupported or ImageVolumeMountFailed for what this
    engine's API version cannot carry."""
    return {
        "Image": spec.image,
        "Labels": dict(spec.labels),
        # JSON null leaves it to the image; an empty list would do so, too, but for an entrypoint that is given
        "Entrypoint": list(spec.entrypoint) or None,
        "Cmd": list(spec.command) or None,
        "Env": [f"{name}={value}" for name, value in spec.env],
        "WorkingDir": spec.working_dir,
        "User": spec.user,
        "Hostname": spec.hostname,
        "Domainname": spec.domainname,
        "Tty": spec.tty,
        "OpenStdin": spec.stdin,
        "StdinOnce": spec.stdin_once,
        "StopSignal": spec.stop_signal,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": _host_config(spec, facts),
    }


def _host_config(spec: ContainerSpec, facts: EngineFacts) -> dict[str, Any]:
    if spec.cdi_devices and not has(facts, Feature.CDI_DEVICES):
        raise UnsupportedField(f"CDI devices need {needs(Feature.CDI_DEVICES)}", field="config.CDI_devices")
    config: dict[str, Any] = {
        "Init": False,
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "LogConfig": _log_config(spec.log_spool),
        "Runtime": spec.runtime or facts.default_runtime,
        "CgroupParent": spec.cgroup_parent,
        "CgroupnsMode": spec.cgroupns_mode,
        "NetworkMode": spec.network_mode,
        "IpcMode": spec.ipc_mode,
        "PidMode": spec.pid_mode,
        "UTSMode": spec.uts_mode,
        "Privileged": spec.privileged,
        "ReadonlyRootfs": spec.readonly_rootfs,
        "CapAdd": list(spec.cap_add),
        "CapDrop": list(spec.cap_drop),
        "SecurityOpt": _security_options(spec),
        # null is the engine's own list, [] is none
        "MaskedPaths": None if spec.masked_paths is None else list(spec.masked_paths),
        "ReadonlyPaths": None if spec.readonly_paths is None else list(spec.readonly_paths),
        "GroupAdd": [str(gid) for gid in spec.groups],
        "Sysctls": dict(spec.sysctls),
        "ShmSize": spec.shm_size,
        "OomScoreAdj": spec.oom_score_adj,
        "Mounts": _mounts(spec.mounts, facts),
        "Devices": [
            {"PathOnHost": d.host_path, "PathInContainer": d.container_path, "CgroupPermissions": d.permissions}
            for d in spec.devices
        ],
        "DeviceRequests": [{"Driver": "cdi", "DeviceIDs": list(spec.cdi_devices)}] if spec.cdi_devices else [],
    }
    return config | limits_of_new(spec, facts)


def limits_of_new(spec: ContainerSpec, facts: EngineFacts) -> dict[str, Any]:
    """The part of a new container's HostConfig that limits resources."""
    limits = resource_limits(spec.resources, no_limit=0)
    if spec.resources.pids_limit == 0 and facts.cgroup_driver == "systemd":
        # The engine passes neither 0 nor -1 on, and systemd gives a scope without a limit its DefaultTasksMax.
        limits["PidsLimit"] = _MOST_PROCESSES
    return limits


def _log_config(spool: LogSpool) -> dict[str, Any]:
    # The engine fills options that are missing from its log-opts, so each is named; the empty ones add nothing.
    return {
        "Type": "json-file",
        "Config": {
            "max-size": str(spool.max_size),
            "max-file": str(spool.max_files),
            "mode": "blocking",
            "compress": "false",
            "labels": "",
            "labels-regex": "",
            "env": "",
            "env-regex": "",
            "tag": "",
        },
    }


def _security_options(spec: ContainerSpec) -> list[str]:
    options = [f"no-new-privileges={'true' if spec.no_new_privileges else 'false'}"]
    if spec.privileged:
        # It overrides the rest. Engine 28 would apply a seccomp profile that is named here all the same.
        return options
    if spec.seccomp is not None:
        options.append(f"seccomp={spec.seccomp}")
    if spec.apparmor is not None:
        options.append(f"apparmor={spec.apparmor}")
    options += [f"label={label}" for label in spec.selinux]
    return options


def _mounts(mounts: Sequence[EngineMount], facts: EngineFacts) -> list[dict[str, Any]]:
    bodies = []
    shown: Counter[str] = Counter()
    for mount in mounts:
        body = _mount(mount, facts)
        if mount.image:
            body["Source"] = _spelling(mount, shown[mount.source])
            shown[mount.source] += 1
        bodies.append(body)
    return bodies


def _spelling(mount: EngineMount, number: int) -> str:
    """The image's id in a way that no other mount of this container names it.

    The engine calls what it makes for such a mount after the container and the source's spelling, and fails over the
    second mount of an image. The beginning of an id, without its algorithm, means the same image.
    """
    digits = mount.source.rpartition(":")[2]
    if not number:
        return mount.source
    if not is_image_id(mount.source) or number > len(digits) - _FEWEST_DIGITS:
        raise ImageVolumeMountFailed(f"{mount.target}: an image can be mounted {len(digits) - _FEWEST_DIGITS} times")
    return digits[: len(digits) + 1 - number]


def _mount(mount: EngineMount, facts: EngineFacts) -> dict[str, Any]:
    # A typed mount and never a string `source:target`: with those the engine makes a missing host path as root.
    body: dict[str, Any] = {"Source": mount.source, "Target": mount.target, "ReadOnly": mount.readonly}
    if mount.image:
        if not has(facts, Feature.IMAGE_MOUNTS):
            raise ImageVolumeMountFailed(f"{mount.target}: image volumes need {needs(Feature.IMAGE_MOUNTS)}")
        options = {"Subpath": mount.image_subpath} if mount.image_subpath else {}
        return body | {"Type": "image", "ImageOptions": options}
    bind: dict[str, Any] = {"Propagation": mount.propagation}
    if mount.readonly and has(facts, Feature.READONLY_RECURSION):
        bind["ReadOnlyForceRecursive" if mount.recursive_readonly else "ReadOnlyNonRecursive"] = True
    elif mount.recursive_readonly:
        raise RROUnsupported(f"{mount.target}: read-only for submounts, too, needs {needs(Feature.READONLY_RECURSION)}")
    return body | {"Type": "bind", "BindOptions": bind}


def update_body(resources: EngineResources) -> dict[str, Any]:
    """The JSON of `POST /containers/{id}/update`, where the engine takes 0 for `leave as it is`."""
    limits = resource_limits(resources, no_limit=-1)
    if limits.get("Memory") == -1:
        limits["Memory"] = NO_MEMORY_LIMIT
    if limits.get("MemorySwap") == _NO_SWAP_LIMIT:
        limits["MemorySwap"] = 2 * NO_MEMORY_LIMIT
    return limits


def resource_limits(resources: EngineResources, *, no_limit: int) -> dict[str, Any]:
    """The limits that are set, in the engine's names; `no_limit` is how this call says that there shall be none."""
    limits: dict[str, Any] = {
        "CpuShares": resources.cpu_shares if resources.cpu_shares != 0 else _USUAL_SHARES,
        "CpuQuota": resources.cpu_quota if resources.cpu_quota != 0 else no_limit,
        "CpuPeriod": resources.cpu_period,
        "CpusetCpus": resources.cpuset_cpus,
        "CpusetMems": resources.cpuset_mems,
        "Memory": resources.memory if resources.memory != 0 else no_limit,
        # 0 would be twice the memory
        "MemorySwap": resources.memory_swap if resources.memory_swap != 0 else _NO_SWAP_LIMIT,
        "PidsLimit": resources.pids_limit if resources.pids_limit != 0 else no_limit,
    }
    return {name: value for name, value in limits.items() if value is not None and value != ""}
