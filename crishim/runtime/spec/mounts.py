"""Mounts and devices (CRI `Mount`, `Device`, `CDIDevice`)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from crishim.engine.features import Feature, has, needs, recurses_readonly
from crishim.engine.values import EngineDevice, EngineFacts, EngineMount
from crishim.errors import ImageVolumeMountFailed, InvalidArgument, UnsupportedField
from crishim.model import CDIDevice, Device, Mount, MountPropagation
from crishim.runtime.oci.mounts import destination_of
from crishim.runtime.spec.ways import Beyond, Ways

_PROPAGATION: dict[MountPropagation, Literal["rprivate", "rslave", "rshared"]] = {
    MountPropagation.PROPAGATION_PRIVATE: "rprivate",
    MountPropagation.PROPAGATION_HOST_TO_CONTAINER: "rslave",
    MountPropagation.PROPAGATION_BIDIRECTIONAL: "rshared",
}
_OPTIONS = frozenset(("noexec", "nodev", "nosuid"))
_CDI_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z][A-Za-z0-9_.-]*=[A-Za-z0-9][A-Za-z0-9_.:-]*")


def make_mounts(
    mounts: Sequence[Mount], facts: EngineFacts, field: str, ways: Ways | None = None
) -> tuple[EngineMount, ...]:
    """Mounts for the engine. Sources must exist (nothing is made on the host); symbolic links are followed.

    An image is that of `image_ref`. `ways`: what the front carries beside the engine; None: the default runtime without
    a front. Raises InvalidArgument, UnsupportedField, RROUnsupported, ImageVolumeMountFailed.
    """
    ways = ways or Ways(recursive=recurses_readonly(facts, facts.default_runtime))
    made: dict[str, EngineMount] = {}
    folders: dict[str, str] = {}
    for i, mount in enumerate(mounts):
        one = _make_mount(mount, facts, f"{field}[{i}]", folders, ways)
        if one.recursive_readonly and not ways.recursive:
            ways.take(Beyond.RECURSIVE_READ_ONLY, f"{field}[{i}]")
            one = replace(one, recursive_readonly=False)
        if one.target in made:
            raise InvalidArgument(f"something else is mounted at {one.target}", field=f"{field}[{i}].container_path")
        made[one.target] = one
    return tuple(made.values())


def _make_mount(mount: Mount, facts: EngineFacts, field: str, folders: dict[str, str], ways: Ways) -> EngineMount:
    target = destination_of(mount.container_path)
    if not mount.container_path.startswith("/"):
        raise InvalidArgument(f"{mount.container_path!r} is not an absolute path", field=f"{field}.container_path")
    if "\0" in target:
        raise InvalidArgument("holds a NUL, which no path can", field=f"{field}.container_path")
    if target == "/":
        raise InvalidArgument("the root file system is the image's", field=f"{field}.container_path")
    for i, option in enumerate(mount.mount_options):
        if option not in _OPTIONS:
            raise InvalidArgument(f"{option!r}: {', '.join(sorted(_OPTIONS))}", field=f"{field}.mount_options[{i}]")
    _check_ways(mount, facts, field, ways)
    if mount.image is not None and mount.image.image:
        return _make_image_mount(mount, mount.image.image_ref, target, facts, field)
    if mount.image_sub_path:
        raise InvalidArgument("goes with an image only", field=f"{field}.image_sub_path")
    return EngineMount(
        source=_existing(mount.host_path, f"{field}.host_path", folders),
        target=target,
        readonly=mount.readonly,
        recursive_readonly=mount.recursive_read_only,
        propagation=_PROPAGATION[mount.propagation],
    )


def _check_ways(mount: Mount, facts: EngineFacts, field: str, ways: Ways) -> None:
    """Raise for the ways of mounting that contradict each other, or that neither engine nor front can carry."""
    if mount.mount_options:
        ways.take(Beyond.MOUNT_OPTIONS, f"{field}.mount_options")
    _check_mappings(mount, field, ways)
    if mount.selinux_relabel and "selinux" in facts.security:
        raise UnsupportedField("the engine's mounts are not relabelled", field=f"{field}.selinux_relabel")
    if mount.recursive_read_only:
        if not mount.readonly:
            raise InvalidArgument("needs readonly", field=f"{field}.recursive_read_only")
        if mount.propagation is not MountPropagation.PROPAGATION_PRIVATE:
            raise InvalidArgument("needs private propagation", field=f"{field}.recursive_read_only")


def _check_mappings(mount: Mount, field: str, ways: Ways) -> None:
    """Owners are shifted into the pod's user namespace, and into no other."""
    user = ways.user
    for name, mappings in (("uidMappings", mount.uid_mappings), ("gidMappings", mount.gid_mappings)):
        if not mappings:
            continue
        if user is None:
            raise UnsupportedField("idmapped mounts need a pod with a user namespace", field=f"{field}.{name}")
        if mappings != (user.uids if name == "uidMappings" else user.gids):
            raise InvalidArgument("is not the mapping of the pod's user namespace", field=f"{field}.{name}")
        if mount.image is not None and mount.image.image:
            raise UnsupportedField("an image's files cannot have their owners shifted", field=f"{field}.{name}")


def _make_image_mount(mount: Mount, image_id: str, target: str, facts: EngineFacts, field: str) -> EngineMount:
    """An image's files, or a folder of them, always read-only (CRI `Mount.image`)."""
    if mount.host_path:
        raise InvalidArgument("an image excludes a host path", field=f"{field}.host_path")
    if not mount.readonly:
        raise InvalidArgument("an image can be mounted read-only only", field=f"{field}.readonly")
    if mount.propagation is not MountPropagation.PROPAGATION_PRIVATE:
        raise InvalidArgument("nothing is mounted below an image", field=f"{field}.propagation")
    sub_path = mount.image_sub_path
    if os.path.isabs(sub_path) or ".." in sub_path.split("/"):
        raise InvalidArgument(f"{sub_path!r} is not a path below the image's root", field=f"{field}.image_sub_path")
    if not has(facts, Feature.IMAGE_MOUNTS) and not can_be_viewed(facts):
        raise ImageVolumeMountFailed(
            f"{field}.image: image volumes need {needs(Feature.IMAGE_MOUNTS)}, or the storage driver overlay2, "
            f"not {facts.storage_driver}"
        )
    return EngineMount(
        source=image_id,
        target=target,
        readonly=True,
        image=True,
        image_subpath=os.path.normpath(sub_path) if sub_path else "",
    )


def can_be_viewed(facts: EngineFacts) -> bool:
    """Whether an image's layers are folders of the node, which a view can be made of (`crishim.images.views`)."""
    return facts.storage_driver == "overlay2" and not facts.containerd_store


def _existing(path: str, field: str, folders: dict[str, str] | None = None) -> str:
    """The path without symbolic links. Raises InvalidArgument where there is nothing.

    `folders`: real paths, ending in a slash, of folders that were met before. A pod's mounts lie side by side, and to
    follow each of 200 paths from the root takes longer than all else that is decided about their container.
    """
    if not path.startswith("/"):
        raise InvalidArgument(f"{path!r} is not an absolute path", field=field)
    folders = {} if folders is None else folders
    folder, _, name = path.rpartition("/")
    try:
        if name in ("", ".", ".."):
            return os.path.realpath(path, strict=True)
        if folder not in folders:
            folders[folder] = os.path.join(os.path.realpath(folder or "/", strict=True), "")
        real = folders[folder] + name
        return os.path.realpath(real, strict=True) if stat.S_ISLNK(os.lstat(real).st_mode) else real
    except (OSError, ValueError) as error:  # ValueError: a NUL in it
        raise InvalidArgument(f"{path!r}: {getattr(error, 'strerror', None) or error}", field=field) from error


def make_devices(devices: Sequence[Device], field: str) -> tuple[EngineDevice, ...]:
    """Host devices; a folder stands for each device in it. Raises InvalidArgument for what is neither."""
    made: list[EngineDevice] = []
    for i, device in enumerate(devices):
        where = f"{field}[{i}]"
        permissions = device.permissions or "rwm"
        if set(permissions) - set("rwm"):
            raise InvalidArgument(f"{permissions!r}: any of r, w, m", field=f"{where}.permissions")
        host = _existing(device.host_path, f"{where}.host_path")
        inside = device.container_path or device.host_path
        if not os.path.isabs(inside) or "\0" in inside:
            raise InvalidArgument(f"{inside!r} is not an absolute path", field=f"{where}.container_path")
        if os.path.isdir(host):
            made += _devices_below(host, inside, permissions)
        elif _is_device(host):
            made.append(EngineDevice(host_path=host, container_path=inside, permissions=permissions))
        else:
            raise InvalidArgument(f"{device.host_path} is no device", field=f"{where}.host_path")
    return tuple(made)


def _devices_below(folder: str, inside: str, permissions: str) -> list[EngineDevice]:
    found: list[EngineDevice] = []
    for parent, _, names in os.walk(folder):
        for name in sorted(names):
            path = os.path.join(parent, name)
            if _is_device(path):
                target = os.path.join(inside, os.path.relpath(path, folder))
                found.append(EngineDevice(host_path=path, container_path=target, permissions=permissions))
    return found


def _is_device(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False  # a link that leads nowhere, or a device that is being taken away
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def make_cdi_devices(devices: Sequence[CDIDevice], facts: EngineFacts, field: str) -> tuple[str, ...]:
    """CDI device names for engines that know them."""
    for i, device in enumerate(devices):
        if not _CDI_NAME.fullmatch(device.name):
            raise InvalidArgument(f"{device.name!r} is not of the form vendor/class=name", field=f"{field}[{i}].name")
    if devices and not has(facts, Feature.CDI_DEVICES):
        raise UnsupportedField("the engine knows no CDI devices", field=field)
    return tuple(device.name for device in devices)
