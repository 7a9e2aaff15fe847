"""A configuration as the engine wrote it, rewritten as wished."""

from __future__ import annotations

from typing import Any

from crishim.runtime.oci.capabilities import with_ambient
from crishim.runtime.oci.mounts import with_files, with_mount_options, with_shm
from crishim.runtime.oci.namespaces import with_id_mappings, with_namespaces, with_sysctls
from crishim.runtime.oci.parts import Config, at
from crishim.runtime.oci.resources import with_hugepage_limits, with_unified
from crishim.runtime.oci.wish import Wish


def rewrite(config: Config, wish: Wish) -> dict[str, Any]:
    """A container's configuration (`config.json`) with the wish carried out; the given one stays as it is.

    Raises UnfitConfig where it cannot be carried out.
    """
    if wish.ambient:
        config = at(config, ("process",), lambda process: rewrite_process(process, wish))
    config = with_unified(config, wish.unified)
    config = with_hugepage_limits(config, wish.hugepage_limits)
    config = with_namespaces(config, wish.namespaces)
    config = with_sysctls(config, wish.sysctls)
    config = with_id_mappings(config, wish.id_mappings)
    config = with_files(config, wish.files)
    config = with_shm(config, wish.shm_source, wish.shm_size)
    return dict(with_mount_options(config, wish.mount_options))


def rewrite_process(process: Config, wish: Wish) -> dict[str, Any]:
    """A process of the container (that of `config.json`, or an exec's) with the wish carried out."""
    return dict(with_ambient(process, wish.ambient))
