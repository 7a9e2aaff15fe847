"""Namespaces to join by their path, and their settings (config-linux.md, "Namespaces", `sysctl`)."""

from __future__ import annotations

from collections.abc import Mapping

from crishim.model import IDMapping
from crishim.runtime.oci.parts import Config, at, mapping, objects
from crishim.runtime.oci.wish import IDMappings, NamespaceKind

_LINUX = ("linux",)


def with_namespaces(config: Config, paths: Mapping[NamespaceKind, str]) -> Config:
    """The configuration with these namespaces joined, whether it had its own, another's or the host's.

    Whoever joins a UTS namespace takes its names: a name in the configuration would change it for all that live there.
    """
    if not paths:
        return config

    def change(linux: Config) -> Config:
        others = [namespace for namespace in objects(linux, "namespaces") if namespace.get("type") not in paths]
        return {**linux, "namespaces": [*others, *({"type": kind, "path": path} for kind, path in paths.items())]}

    changed = at(config, _LINUX, change)
    if "uts" in paths:
        changed = {name: value for name, value in changed.items() if name not in ("hostname", "domainname")}
    return changed


def with_sysctls(config: Config, sysctls: Mapping[str, str]) -> Config:
    """The configuration with these kernel settings beside its own."""
    if not sysctls:
        return config
    return at(config, _LINUX, lambda linux: {**linux, "sysctl": {**mapping(linux, "sysctl"), **sysctls}})


def with_id_mappings(config: Config, mappings: IDMappings | None) -> Config:
    """The configuration with the mappings of the user namespace that it joins: runc 1.1 demands them beside its path,
    later ones want them equal or absent."""
    if mappings is None:
        return config
    pair = {"uidMappings": [_run(m) for m in mappings.uids], "gidMappings": [_run(m) for m in mappings.gids]}
    return at(config, _LINUX, lambda linux: {**linux, **pair})


def _run(mapping_: IDMapping) -> dict[str, int]:
    return {"containerID": mapping_.container_id, "hostID": mapping_.host_id, "size": mapping_.length}
