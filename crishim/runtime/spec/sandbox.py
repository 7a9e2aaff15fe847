"""The engine's container of a pod sandbox: it holds the namespaces and does nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace

from crishim.engine.twins import PREFIX
from crishim.engine.values import ContainerSpec, EngineFacts, LogSpool
from crishim.errors import InvalidArgument, UnknownRuntimeHandler
from crishim.model import (
    LinuxSandboxSecurityContext,
    NamespaceMode,
    NamespaceOption,
    PodSandboxConfig,
    SupplementalGroupsPolicy,
)
from crishim.runtime.core import RuntimeSettings
from crishim.runtime.host import Host
from crishim.runtime.labels import make_sandbox_labels
from crishim.runtime.spec.cgroup import cgroupns_mode, make_cgroup_parent
from crishim.runtime.spec.namespaces import make_sandbox_modes
from crishim.runtime.spec.security import make_apparmor, make_groups, make_seccomp, make_selinux, make_user
from crishim.runtime.spec.ways import Beyond, make_ways

OOM_SCORE = -998
"""The kubelet's score for what keeps a pod alive: hardly ever killed, but before the daemons of the node."""
PAUSE_USER = 65535
"""User and group of the sandbox image, where a request that names none must be told in words."""
_HOSTNAME_LIMIT = 64  # bytes, Linux
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
"""One label, or several where the pod's name in the DNS is its hostname (RFC 1123, section 2.1)."""
_NAME_PART = re.compile(r"[A-Za-z0-9_.-]*")
_CONTEXT = "config.linux.security_context"


def make_sandbox_spec(
    config: PodSandboxConfig,
    runtime_handler: str,
    *,
    image: str,
    facts: EngineFacts,
    host: Host,
    settings: RuntimeSettings,
) -> ContainerSpec:
    """Decide all about a sandbox before anything is done. Raises InvalidArgument, UnsupportedField,
    UnknownRuntimeHandler."""
    check_metadata(config)
    _check_places(config)
    linux = config.linux
    context = (linux.security_context if linux else None) or LinuxSandboxSecurityContext()
    options = context.namespace_options or NamespaceOption()
    ways = make_ways(facts, host, make_runtime(runtime_handler, facts))
    if settings.carrier == "pause":
        ways = replace(ways, obstacles={**ways.obstacles, Beyond.USER_NAMESPACE: "the setting `carrier` is pause"})
    modes = make_sandbox_modes(options, f"{_CONTEXT}.namespace_options", ways)
    sysctls = dict(linux.sysctls) if linux else {}
    _check_sysctls(sysctls, options)
    hostname = _hostname(config.hostname)
    privileged = context.privileged
    return ContainerSpec(
        image=image,
        labels=make_sandbox_labels(config, runtime_handler),
        user=_make_user(context),
        # With host network the node's: the engine cannot set one in the node's UTS namespace.
        hostname="" if options.network is NamespaceMode.NODE else hostname,
        runtime=ways.runtime,
        cgroup_parent=make_cgroup_parent(linux.cgroup_parent if linux else "", facts, "config.linux.cgroup_parent"),
        network_mode=modes.network,
        ipc_mode=modes.ipc,
        pid_mode=modes.pid,
        uts_mode=modes.uts,
        cgroupns_mode=cgroupns_mode(facts, privileged=False),
        # What the sandbox mounts first, all of the pod's containers get: with a read-only /sys of the network namespace
        # in the sandbox, a privileged container's would be read-only, too.
        privileged=privileged,
        readonly_rootfs=context.readonly_rootfs,
        seccomp=make_seccomp(context.seccomp, context.seccomp_profile_path, privileged=privileged, field=_CONTEXT),
        apparmor=make_apparmor(
            context.apparmor, "", privileged=privileged, available="apparmor" in facts.security, field=_CONTEXT
        ),
        selinux=make_selinux(
            context.selinux_options,
            privileged=privileged,
            available="selinux" in facts.security,
            field=f"{_CONTEXT}.selinux_options",
        ),
        groups=make_groups(context.supplemental_groups, _CONTEXT),
        sysctls=sysctls,
        shm_size=settings.shm_size,
        oom_score_adj=host.clamp_oom_score(OOM_SCORE),
        # The sandbox's process prints nothing.
        log_spool=LogSpool(max_size=1 << 20, max_files=1),
    )


def check_metadata(config: PodSandboxConfig) -> None:
    """Raise InvalidArgument unless the pod is named in a way that an engine's name can carry."""
    if config.metadata is None:
        raise InvalidArgument("is missing", field="config.metadata")
    for name in ("name", "namespace", "uid"):
        value = getattr(config.metadata, name)
        if not value and name != "namespace":
            raise InvalidArgument("is missing", field=f"config.metadata.{name}")
        if not _NAME_PART.fullmatch(value):
            raise InvalidArgument(f"{value!r} holds more than letters, digits and _.-", field=f"config.metadata.{name}")


def _check_places(config: PodSandboxConfig) -> None:
    """What would only fail later: a folder of logs that no container could use, a host port that leads to two."""
    if config.log_directory and not os.path.isabs(config.log_directory):
        raise InvalidArgument(f"{config.log_directory!r} is not an absolute path", field="config.log_directory")
    taken = set()
    for i, mapping in enumerate(config.port_mappings):
        place = (mapping.protocol, mapping.host_ip, mapping.host_port)
        if mapping.host_port and place in taken:
            raise InvalidArgument(f"host port {mapping.host_port} is mapped twice", field=f"config.port_mappings[{i}]")
        taken.add(place)


def make_runtime(handler: str, facts: EngineFacts) -> str:
    """The engine's runtime for a handler; the empty one is the engine's default. Raises UnknownRuntimeHandler."""
    if not handler:
        return facts.default_runtime
    if handler.startswith(PREFIX) and (plain := handler.removeprefix(PREFIX)) in facts.twins:
        raise UnknownRuntimeHandler(
            f"{handler!r} is crishim's own front of the runtime {plain!r}, which is the handler to name",
            handler=handler,
        )
    if handler not in facts.runtimes:
        known = ", ".join(sorted(facts.runtimes))
        raise UnknownRuntimeHandler(f"the engine has no runtime {handler!r}; it has {known}", handler=handler)
    return handler


def _make_user(context: LinuxSandboxSecurityContext) -> str:
    """The sandbox's user. With the policy Strict always with a group, for then the engine adds none of the image's."""
    user = make_user(context.run_as_user, context.run_as_group, "", _CONTEXT)
    if context.supplemental_groups_policy is not SupplementalGroupsPolicy.Strict or ":" in user:
        return user
    return f"{user}:0" if user else f"{PAUSE_USER}:{PAUSE_USER}"


def _hostname(name: str) -> str:
    """The name as asked; empty is the engine's choice. Raises InvalidArgument for what cannot be a hostname.

    The kernel would take any 64 bytes, which resolvers and programs then stumble over; kubelets send valid ones.
    CRI's comment allows an empty name only with host network, but critest's pods have none, and other runtimes run
    them.
    """
    if len(name.encode()) > _HOSTNAME_LIMIT:
        raise InvalidArgument(f"{name!r} is longer than {_HOSTNAME_LIMIT} bytes", field="config.hostname")
    if name and not _HOSTNAME.fullmatch(name):
        raise InvalidArgument(f"{name!r} cannot be a hostname (RFC 1123)", field="config.hostname")
    return name


def _check_sysctls(sysctls: Mapping[str, str], options: NamespaceOption) -> None:
    for key in sysctls:
        field = f"config.linux.sysctls[{key}]"
        name = key.replace("/", ".")
        if name.startswith("net."):
            if options.network is NamespaceMode.NODE:
                raise InvalidArgument("is the host's with host network", field=field)
        elif name.startswith(("kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue.")):
            if options.ipc is NamespaceMode.NODE:
                raise InvalidArgument("is the host's with host IPC", field=field)
        else:
            raise InvalidArgument("is not a setting of a pod's namespaces", field=field)


def net_sysctls(config: PodSandboxConfig) -> dict[str, str]:
    """The pod's own net.* settings, dotted."""
    sysctls = config.linux.sysctls if config.linux else {}
    return {key: value for key, value in sysctls.items() if key.replace("/", ".").startswith("net.")}
