"""The engine's container of a CRI container."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Sequence

from crishim.engine.values import ContainerSpec, EngineFacts, LogSpool
from crishim.errors import InvalidArgument
from crishim.model import (
    ContainerConfig,
    KeyValue,
    LinuxContainerConfig,
    LinuxContainerResources,
    LinuxContainerSecurityContext,
)
from crishim.runtime.core import RuntimeSettings
from crishim.runtime.host import Host
from crishim.runtime.labels import make_container_labels
from crishim.runtime.objects import Sandbox
from crishim.runtime.spec import security
from crishim.runtime.spec.cgroup import cgroupns_mode, make_cgroup_parent
from crishim.runtime.spec.mounts import make_cdi_devices, make_devices, make_mounts
from crishim.runtime.spec.namespaces import make_container_modes, own_user
from crishim.runtime.spec.resources import check_resources, make_create_resources
from crishim.runtime.spec.sandbox import make_runtime
from crishim.runtime.spec.signals import make_stop_signal
from crishim.runtime.spec.ways import make_ways

_CONTEXT = "config.linux.security_context"
LONGEST_STRING = 32 * os.sysconf("SC_PAGE_SIZE") - 1
"""Bytes of one word of a command line, or of a variable with its name: what Linux takes (execve(2), MAX_ARG_STRLEN)."""


def make_container_spec(
    config: ContainerConfig,
    sandbox: Sandbox,
    *,
    image: str,
    log_path: str,
    target_in_pod: Callable[[str], str],
    facts: EngineFacts,
    host: Host,
    settings: RuntimeSettings,
    anchor: str = "",
    process: str = "",
) -> ContainerSpec:
    """Decide all about a container before anything is done, but who its process is where the image's accounts count.

    `anchor`: what a container of an anchored pod says of its network. `process`: the engine's id of the process whose
    PID namespace the containers of such a pod share. The images of mounts are those of `image_ref`.
    Raises InvalidArgument, UnsupportedField and the named errors of mounts.
    """
    linux = config.linux or LinuxContainerConfig()
    context = linux.security_context or LinuxContainerSecurityContext()
    resources = linux.resources or LinuxContainerResources()
    _check_privileged(context, sandbox)
    ways = make_ways(facts, host, make_runtime(sandbox.record.runtime_handler, facts))
    ways.user = own_user(sandbox.namespaces)
    check_resources(resources, "config.linux.resources", ways)
    modes = make_container_modes(
        context.namespace_options,
        sandbox.namespaces,
        sandbox.id,
        target_in_pod,
        f"{_CONTEXT}.namespace_options",
        anchor=anchor,
        process=process,
    )
    privileged = context.privileged
    add, drop = security.make_capabilities(context.capabilities, f"{_CONTEXT}.capabilities", ways)
    mounts = make_mounts(config.mounts, facts, "config.mounts", ways)
    pod = sandbox.record.config.linux
    return ContainerSpec(
        image=image,
        labels=make_container_labels(config, sandbox.id, log_path),
        entrypoint=make_words(config.command, "config.command"),
        command=make_words(config.args, "config.args"),
        env=make_env(config.envs, "config.envs"),
        working_dir=make_working_dir(config.working_dir, "config.working_dir"),
        user=security.make_user(
            context.run_as_user,
            context.run_as_group,
            context.run_as_username,
            _CONTEXT,
            forms=("run_as_user", "run_as_username"),
        ),
        tty=config.tty,
        stdin=config.stdin,
        stdin_once=config.stdin and config.stdin_once,
        stop_signal=make_stop_signal(config.stop_signal),
        runtime=ways.chosen,
        cgroup_parent=make_cgroup_parent(pod.cgroup_parent if pod else "", facts, "sandbox.linux.cgroup_parent"),
        network_mode=modes.network,
        ipc_mode=modes.ipc,
        pid_mode=modes.pid,
        uts_mode=modes.uts,
        cgroupns_mode=cgroupns_mode(facts, privileged=privileged),
        privileged=privileged,
        readonly_rootfs=context.readonly_rootfs,
        no_new_privileges=context.no_new_privs,
        cap_add=() if privileged else add,
        cap_drop=() if privileged else drop,
        seccomp=security.make_seccomp(
            context.seccomp, context.seccomp_profile_path, privileged=privileged, field=_CONTEXT
        ),
        apparmor=security.make_apparmor(
            context.apparmor,
            context.apparmor_profile,
            privileged=privileged,
            available="apparmor" in facts.security,
            field=_CONTEXT,
        ),
        selinux=security.make_selinux(
            context.selinux_options,
            privileged=privileged,
            available="selinux" in facts.security,
            field=f"{_CONTEXT}.selinux_options",
        ),
        masked_paths=() if privileged else _paths(context.masked_paths, f"{_CONTEXT}.masked_paths"),
        readonly_paths=() if privileged else _paths(context.readonly_paths, f"{_CONTEXT}.readonly_paths"),
        groups=security.make_groups(context.supplemental_groups, _CONTEXT),
        shm_size=settings.shm_size,
        oom_score_adj=host.clamp_oom_score(resources.oom_score_adj),
        resources=make_create_resources(resources, settings.pids_limit),
        mounts=mounts,
        devices=make_devices(config.devices, "config.devices"),
        cdi_devices=make_cdi_devices(config.cdi_devices, facts, "config.CDI_devices"),
        log_spool=LogSpool(max_size=settings.log_spool_size, max_files=settings.log_spool_files),
    )


def make_words(words: tuple[str, ...], field: str) -> tuple[str, ...]:
    """Words of a command line, exactly as given or refused."""
    for i, word in enumerate(words):
        if "\0" in word:
            raise InvalidArgument("holds a NUL, which no command line can carry", field=f"{field}[{i}]")
        if len(word.encode()) > LONGEST_STRING:
            raise InvalidArgument(f"is longer than {LONGEST_STRING} bytes, which Linux takes", field=f"{field}[{i}]")
    return words


def make_working_dir(path: str, field: str) -> str:
    """The folder in which the process starts; empty is the image's."""
    if path and (not path.startswith("/") or "\0" in path):
        raise InvalidArgument(f"{path!r} is not an absolute path", field=field)
    return path


def _paths(paths: tuple[str, ...], field: str) -> tuple[str, ...]:
    for i, path in enumerate(paths):
        if not path.startswith("/") or "\0" in path:
            raise InvalidArgument(f"{path!r} is not an absolute path", field=f"{field}[{i}]")
    return paths


def make_env(envs: Sequence[KeyValue], field: str) -> tuple[tuple[str, str], ...]:
    """Environment for the engine, exactly as given or refused."""
    for i, env in enumerate(envs):
        if not env.key or "=" in env.key or "\0" in env.key:
            raise InvalidArgument(f"{env.key!r} cannot be the name of a variable", field=f"{field}[{i}].key")
        if "\0" in env.value:
            raise InvalidArgument("holds a NUL, which no environment can carry", field=f"{field}[{i}].value")
        # Characters first: to encode hundreds of variables takes time, and nearly all are short.
        if len(env.key) + len(env.value) > LONGEST_STRING // 4 and _size(env) > LONGEST_STRING:
            raise InvalidArgument(
                f"is longer than {LONGEST_STRING} bytes, which Linux takes", field=f"{field}[{i}].value"
            )
    return tuple((env.key, env.value) for env in envs)


def _size(env: KeyValue) -> int:
    return len(f"{env.key}={env.value}".encode())


def make_log_path(log_directory: str, log_path: str) -> str:
    """Absolute path of a container's log, empty where either part is missing. Raises InvalidArgument when it would
    lie outside the pod's folder."""
    if not log_path or not log_directory:
        return ""
    if not os.path.isabs(log_directory):
        raise InvalidArgument(f"{log_directory!r} is not an absolute path", field="sandbox_config.log_directory")
    path = posixpath.normpath(posixpath.join(log_directory, log_path))
    if not path.startswith(posixpath.normpath(log_directory).rstrip("/") + "/"):
        raise InvalidArgument(f"{log_path!r} is not below the pod's log_directory", field="config.log_path")
    return path


def _check_privileged(context: LinuxContainerSecurityContext, sandbox: Sandbox) -> None:
    linux = sandbox.record.config.linux
    pod = linux.security_context if linux else None
    if context.privileged and not (pod and pod.privileged):
        raise InvalidArgument("the pod sandbox is not privileged", field=f"{_CONTEXT}.privileged")
