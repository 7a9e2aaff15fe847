"""What is made for an anchored pod, and what its containers are to find: pure functions of what was asked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from crishim.checkpoint.record import SandboxRecord
from crishim.model import Mount, NamespaceMode, PodSandboxConfig
from crishim.network.held import SHM, Kind, Wanted
from crishim.runtime.anchored.carrier import options_of
from crishim.runtime.oci.mounts import SHM as DEV_SHM
from crishim.runtime.oci.mounts import destination_of
from crishim.runtime.oci.wish import NOTHING, IDMappings, NamespaceKind, Wish
from crishim.runtime.spec.namespaces import own_user

FILES: Mapping[str, str] = {
    "resolv.conf": "/etc/resolv.conf",
    "hosts": "/etc/hosts",
    "hostname": "/etc/hostname",
}
"""Files of a pod, by their name in its folder, and where containers have them."""
_ENGINES_SYSCTLS = {"net.ipv4.ip_unprivileged_port_start": "0", "net.ipv4.ping_group_range": "0 2147483647"}
"""What engines set in every network namespace that is not the host's: without privileges, any port may be bound, and
ping works."""
_HOSTS = """\
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::\tip6-localnet
ff02::1\tip6-allnodes
ff02::2\tip6-allrouters
"""


def kinds_of(config: PodSandboxConfig) -> frozenset[Kind]:
    """The namespaces that are the pod's own (CRI `NamespaceOption`); the UTS namespace goes with the network's."""
    options = options_of(config)
    own: list[Kind] = []
    if options.network is not NamespaceMode.NODE:
        own += ["network", "uts"]
    if options.ipc is not NamespaceMode.NODE:
        own.append("ipc")
    if own_user(options) is not None:
        own.append("user")
    return frozenset(own)


def make_wanted(
    config: PodSandboxConfig, sandbox_id: str, resolv_conf: str, shm_size: int, host_files: Mapping[str, str]
) -> Wanted:
    """All that is to be made.

    `resolv_conf`: the pod's own, empty where it asks for nothing. `host_files`: text of the host's files by their names
    in `FILES`, for what the pod has as the host has it.
    """
    kinds, user = kinds_of(config), own_user(options_of(config))
    hostname = hostname_of(config, sandbox_id)
    files = {"resolv.conf": resolv_conf or host_files.get("resolv.conf", "")}
    if "network" in kinds:
        files |= {"hosts": _HOSTS, "hostname": f"{hostname}\n"}
    else:
        files |= {name: host_files[name] for name in ("hosts", "hostname") if name in host_files}
    asked = config.linux.sysctls if config.linux else {}
    if user is not None:
        asked = {key: value for key, value in asked.items() if key not in _of_users_ipc(config)}
    usual = _ENGINES_SYSCTLS if "network" in kinds else {}
    named = {key.replace("/", ".") for key in asked}
    return Wanted(
        kinds=kinds,
        hostname=hostname if "uts" in kinds else "",
        sysctls={**{key: value for key, value in usual.items() if key not in named}, **asked},
        shm_size=shm_size,
        files=files,
        writable_sys=is_privileged(config),
        uids=user.uids[0] if user is not None else None,
        gids=user.gids[0] if user is not None else None,
    )


def is_privileged(config: PodSandboxConfig) -> bool:
    """Whether the pod may have privileged containers (CRI `LinuxSandboxSecurityContext.privileged`)."""
    context = config.linux.security_context if config.linux else None
    return context is not None and context.privileged


def hostname_of(config: PodSandboxConfig, sandbox_id: str) -> str:
    """The pod's host name; one that names none gets what engines give: the beginning of its id."""
    return config.hostname or sandbox_id[:12]


def with_hostname(
    env: tuple[tuple[str, str], ...], image_env: Sequence[str], sandbox: SandboxRecord
) -> tuple[tuple[str, str], ...]:
    """A container's environment with the pod's HOSTNAME, where neither request nor image have one: engines would take
    the anchor's."""
    named = {key for key, _ in env} | {word.partition("=")[0] for word in image_env}
    if "HOSTNAME" in named or "uts" not in kinds_of(sandbox.config):
        return env
    return (*env, ("HOSTNAME", hostname_of(sandbox.config, sandbox.id)))


def _of_users_ipc(config: PodSandboxConfig) -> dict[str, str]:
    """Settings that the kernel lets the user namespace's root write only, which each container's runtime is."""
    sysctls = config.linux.sysctls if config.linux else {}
    return {key: value for key, value in sysctls.items() if not key.replace("/", ".").startswith("net.")}


def with_pod(wish: Wish | None, sandbox: SandboxRecord, mounts: Sequence[Mount], folder: str) -> Wish:
    """The wish of an anchored pod's container, or of its own process, with the pod's namespaces and files.

    `folder`: that of the pod. `mounts`: what the container itself has mounted somewhere is what it finds there.
    """
    kinds, user = kinds_of(sandbox.config), own_user(options_of(sandbox.config))
    shifted = (destination_of(m.container_path) for m in mounts if m.uid_mappings or m.gid_mappings)
    taken = {destination_of(mount.container_path) for mount in mounts}
    paths: dict[NamespaceKind, str] = {
        kind: sandbox.netns_path if kind == "network" else os.path.join(folder, kind) for kind in sorted(kinds)
    }
    return replace(
        wish or NOTHING,
        namespaces={**(wish or NOTHING).namespaces, **paths},
        files={place: os.path.join(folder, name) for name, place in FILES.items() if place not in taken},
        shm_source=os.path.join(folder, SHM) if "ipc" in kinds and DEV_SHM not in taken else "",
        id_mappings=IDMappings(uids=user.uids, gids=user.gids) if user is not None else None,
        sysctls=_of_users_ipc(sandbox.config) if user is not None else {},
        shifted=tuple(shifted) if user is not None else (),
    )


def read_host_files() -> dict[str, str]:
    """The host's files as they are, by their names in `FILES`; what is not there is left out."""
    found = {}
    for name, path in FILES.items():
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                found[name] = file.read()
        except OSError:
            continue  # containers find an empty one, or the engine's
    return found
