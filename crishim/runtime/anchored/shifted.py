"""What containers of a pod with a user namespace see in place of the engine's files: the same, with owners shifted.

It is mounted below the pod's folder when a container is about to be made by its runtime, also anew when somebody
restarts it; it goes with the container, and at the latest with the pod's folder.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Sequence
from typing import Any, TypeGuard

from crishim.errors import FrontFailed
from crishim.front import idmap
from crishim.network.namespaces import NetworkNamespaces
from crishim.runtime.anchored.pod import kinds_of
from crishim.runtime.objects import Sandbox
from crishim.runtime.oci.parts import mapping, objects, texts
from crishim.runtime.oci.wish import Wish

_PLACE = "container-"
_ENGINES_VOLUME = re.compile(r"/volumes/[0-9a-f]{64}/_data$")
"""Where engines keep what an image declares as a volume and nobody mounts: it belongs to the container."""
_FORBIDDING = {"nosuid": os.ST_NOSUID, "nodev": os.ST_NODEV, "noexec": os.ST_NOEXEC}

log = logging.getLogger(__name__)


def place_of(folder: str, container_id: str) -> str:
    """Where a container's file systems lie in the folder of its pod."""
    return os.path.join(folder, _PLACE + container_id)


def with_shifted(config: dict[str, Any], wish: Wish, place: str) -> dict[str, Any]:
    """The configuration with a root file system, and mounts, whose owners are shifted; they are mounted at `place`.

    Raises FrontFailed, and leaves nothing then. Waits for the kernel.
    """
    user, ids = wish.namespaces.get("user"), wish.id_mappings
    merged = mapping(config, "root").get("path")
    if user is None or ids is None or not isinstance(merged, str) or not merged.startswith("/"):
        raise FrontFailed("there is no root file system whose owners could be shifted")
    try:
        root = idmap.make_root(merged, place, user, (ids.uids[0].host_id, ids.gids[0].host_id))
        mounts = [dict(mount) for mount in objects(config, "mounts")]
        for number, mount in enumerate(mounts):
            if mount.get("destination") in wish.shifted or _ENGINES_VOLUME.search(str(mount.get("source"))):
                target = os.path.join(place, f"mount-{number}")
                idmap.shift(str(mount.get("source")), target, user)
                mount["source"] = target
            if mount.get("type") == "bind":
                mount["options"] = _with_locked(texts(mount, "options"), str(mount.get("source")))
    except BaseException as error:
        idmap.release(place)
        if isinstance(error, OSError):
            raise FrontFailed(f"owners cannot be shifted: {error}") from error
        raise
    return {**config, "root": {**mapping(config, "root"), "path": root}, "mounts": mounts}


def _with_locked(options: list[str], source: str) -> list[str]:
    """Options with what the source's own mount forbids: nobody in a user namespace may allow it, and an OCI runtime
    that makes such a mount read-only without saying so would try (mount_namespaces(7))."""
    flags = os.statvfs(source).f_flag
    forbidden = [name for name, flag in _FORBIDDING.items() if flags & flag]
    return [*options, *(name for name in forbidden if name not in options)]


async def release_shifted(namespaces: NetworkNamespaces, sandbox: Sandbox | None, container_id: str) -> None:
    """Take away what was mounted for a container that is gone. What cannot be goes with the pod."""
    if not has_shifted(sandbox):
        return
    try:
        await asyncio.to_thread(idmap.release, place_of(namespaces.folder(sandbox.id), container_id))
    except OSError as error:
        log.warning("container %s: %s", container_id[:13], error, extra={"ids": {"container": container_id}})


def has_shifted(sandbox: Sandbox | None) -> TypeGuard[Sandbox]:
    """Whether anything is mounted for a pod's containers."""
    return sandbox is not None and sandbox.anchored and "user" in kinds_of(sandbox.record.config)


async def shifted_for(namespaces: NetworkNamespaces, sandbox: Sandbox) -> Sequence[str]:
    """Ids of the containers of a pod for which something is mounted. Raises FrontFailed."""
    try:
        names = await asyncio.to_thread(os.listdir, namespaces.folder(sandbox.id))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise FrontFailed(f"what is mounted for containers cannot be listed: {error}", sandbox=sandbox.id) from error
    return tuple(name.removeprefix(_PLACE) for name in names if name.startswith(_PLACE))
