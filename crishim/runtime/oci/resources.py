"""Limits that the engine's API has no words for (config-linux.md, "Control groups")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crishim.model import HugepageLimit
from crishim.runtime.oci.parts import Config, at, mapping, objects

_RESOURCES = ("linux", "resources")


def with_unified(config: Config, unified: Mapping[str, str]) -> Config:
    """The configuration with these files of its cgroup (`unified`, version 2)."""
    if not unified:
        return config
    return at(config, _RESOURCES, lambda found: {**found, "unified": {**mapping(found, "unified"), **unified}})


def with_hugepage_limits(config: Config, limits: Sequence[HugepageLimit]) -> Config:
    """The configuration with these limits (`hugepageLimits`), each for one size of page."""
    if not limits:
        return config
    sizes = {limit.page_size for limit in limits}
    added = [{"pageSize": limit.page_size, "limit": limit.limit} for limit in limits]

    def change(found: Config) -> Config:
        others = [limit for limit in objects(found, "hugepageLimits") if limit.get("pageSize") not in sizes]
        return {**found, "hugepageLimits": [*others, *added]}

    return at(config, _RESOURCES, change)
