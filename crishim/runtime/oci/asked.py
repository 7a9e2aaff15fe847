"""From what was asked for a container, as its record keeps it, to the wish that the front carries out."""

from __future__ import annotations

from collections.abc import Mapping

from crishim.checkpoint.record import ContainerRecord
from crishim.model import HugepageLimit, LinuxContainerConfig
from crishim.runtime.oci.capabilities import asked_ambient
from crishim.runtime.oci.mounts import asked_options, destination_of
from crishim.runtime.oci.wish import NOTHING, Wish


def make_wish(record: ContainerRecord) -> Wish | None:
    """What the front is to carry for a container; None where all of it is in the engine's own words.

    A pure function of the record: whoever asks again after a restart of the server gets the same.
    """
    linux = record.config.linux or LinuxContainerConfig()
    context = linux.security_context
    options = {destination_of(m.container_path): asked_options(m) for m in record.config.mounts if asked_options(m)}
    wish = Wish(
        ambient=asked_ambient(context.capabilities if context else None),
        mount_options=options,
        unified=asked_unified(record),
        hugepage_limits=asked_hugepages(record),
    )
    return None if wish == NOTHING else wish


def asked_unified(record: ContainerRecord) -> Mapping[str, str]:
    """Files of the container's cgroup as asked at its creation and since."""
    linux = record.config.linux
    created = linux.resources.unified if linux and linux.resources else {}
    return {**created, **(record.resources.unified if record.resources else {})}


def asked_hugepages(record: ContainerRecord) -> tuple[HugepageLimit, ...]:
    """Limits of huge pages as asked at the container's creation and since, one per size.

    A limit of 0, which kubelets send for every size, is not the container's business: the pod's cgroup has it.
    """
    linux = record.config.linux
    created = linux.resources.hugepage_limits if linux and linux.resources else ()
    updated = record.resources.hugepage_limits if record.resources else ()
    found = {limit.page_size: limit for limit in (*created, *updated) if limit.limit}
    return tuple(found.values())
