"""Mounts and devices."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from crishim.engine.values import EngineDevice, EngineFacts, EngineMount
from crishim.errors import CRIError, ImageVolumeMountFailed, InvalidArgument, RROUnsupported, UnsupportedField
from crishim.model import CDIDevice, Device, IDMapping, ImageSpec, Mount, MountPropagation
from crishim.runtime.spec.mounts import make_cdi_devices, make_devices, make_mounts

PRIVATE = MountPropagation.PROPAGATION_PRIVATE
SLAVE = MountPropagation.PROPAGATION_HOST_TO_CONTAINER
SHARED = MountPropagation.PROPAGATION_BIDIRECTIONAL


def old(facts: EngineFacts) -> EngineFacts:
    return dataclasses.replace(facts, api_version=(1, 41))


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        ({}, {}),
        ({"readonly": True}, {"readonly": True}),
        ({"readonly": True, "recursive_read_only": True}, {"readonly": True, "recursive_readonly": True}),
        ({"propagation": SLAVE}, {"propagation": "rslave"}),
        ({"propagation": SHARED, "readonly": True}, {"propagation": "rshared", "readonly": True}),
        ({"container_path": "/a/../b//c/"}, {"target": "/b/c"}),
        ({"selinux_relabel": True}, {}),  # where SELinux is off there is nothing to relabel
        ({"image": ImageSpec()}, {}),
    ],
    ids=str,
)
def test_mount(tmp_path: Path, facts: EngineFacts, asked: dict[str, Any], made: dict[str, Any]) -> None:
    mount = Mount(**({"container_path": "/data", "host_path": str(tmp_path)} | asked))
    assert make_mounts([mount], facts, "f") == (EngineMount(**({"source": str(tmp_path), "target": "/data"} | made)),)


def test_symbolic_links_are_followed(tmp_path: Path, facts: EngineFacts) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (made,) = make_mounts([Mount(container_path="/x", host_path=str(tmp_path / "link"))], facts, "f")
    assert made.source == str(tmp_path / "real")


def test_links_anywhere_in_a_path(tmp_path: Path, facts: EngineFacts) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "folder").symlink_to("real")
    (tmp_path / "real" / "loop").symlink_to("loop")
    (tmp_path / "real" / "up").symlink_to("inner")
    real = str(tmp_path / "real" / "inner")
    for path in ("folder/inner", "folder/up", "real/inner/", "folder/inner/.", "real/./inner", "folder/inner/../inner"):
        mounts = [Mount(container_path=f"/{i}", host_path=f"{tmp_path}/{path}") for i in range(2)]
        assert {mount.source for mount in make_mounts(mounts, facts, "f")} == {real}, path
    assert make_mounts([Mount(container_path="/x", host_path="/")], facts, "f")[0].source == "/"
    for path in ("folder/loop", "folder/none", "none/x"):
        with pytest.raises(InvalidArgument):
            make_mounts([Mount(container_path="/x", host_path=f"{tmp_path}/{path}")], facts, "f")


IDS = (IDMapping(),)
VOLUME = ImageSpec(image="x", image_ref="sha256:x")
OF_IMAGE = {"image": VOLUME, "host_path": "", "readonly": True}


@pytest.mark.parametrize(
    ("asked", "error", "field"),
    [
        ({"container_path": ""}, InvalidArgument, "container_path"),
        ({"container_path": "x"}, InvalidArgument, "container_path"),
        ({"host_path": ""}, InvalidArgument, "host_path"),
        ({"host_path": "x"}, InvalidArgument, "host_path"),
        ({"host_path": "/does/not/exist"}, InvalidArgument, "host_path"),
        ({"mount_options": ("noexec", "suid")}, InvalidArgument, "mount_options[1]"),
        ({"mount_options": ("noexec",)}, UnsupportedField, "mount_options"),
        ({"uid_mappings": IDS}, UnsupportedField, "uidMappings"),
        ({"gid_mappings": IDS}, UnsupportedField, "gidMappings"),
        ({"recursive_read_only": True}, InvalidArgument, "recursive_read_only"),
        ({"recursive_read_only": True, "readonly": True, "propagation": SLAVE}, InvalidArgument, "recursive_read_only"),
        ({"image": VOLUME, "readonly": True}, InvalidArgument, "host_path"),
        ({"image": VOLUME, "host_path": ""}, InvalidArgument, "readonly"),
        ({**OF_IMAGE, "propagation": SLAVE}, InvalidArgument, "propagation"),
        ({**OF_IMAGE, "image_sub_path": "/etc"}, InvalidArgument, "image_sub_path"),
        ({**OF_IMAGE, "image_sub_path": "a/../../b"}, InvalidArgument, "image_sub_path"),
        ({**OF_IMAGE, "mount_options": ("noexec",)}, UnsupportedField, "mount_options"),
        ({"container_path": "//./"}, InvalidArgument, "container_path"),
        ({"container_path": "/first/"}, InvalidArgument, "container_path"),  # where another one is
        ({"container_path": "/a\0b"}, InvalidArgument, "container_path"),
        ({"host_path": "/a\0b"}, InvalidArgument, "host_path"),
        ({"image_sub_path": "x"}, InvalidArgument, "image_sub_path"),
    ],
    ids=str,
)
def test_mount_refused(
    tmp_path: Path, facts: EngineFacts, asked: dict[str, Any], error: type[CRIError], field: str
) -> None:
    good = Mount(container_path="/first", host_path=str(tmp_path))
    bad = Mount(**({"container_path": "/data", "host_path": str(tmp_path)} | asked))
    with pytest.raises(InvalidArgument) as caught:
        make_mounts([good, bad], facts, "f")
    assert (type(caught.value), caught.value.field) == (error, f"f[1].{field}")


def test_an_images_files(facts: EngineFacts) -> None:
    for asked, shown in (("", ""), ("usr/share", "usr/share"), ("./usr//share/", "usr/share")):
        mount = Mount(container_path="/x", image=VOLUME, readonly=True, image_sub_path=asked, recursive_read_only=True)
        made = make_mounts([mount], dataclasses.replace(facts, api_version=(1, 48)), "f")
        wanted = EngineMount(source="sha256:x", target="/x", image=True, readonly=True, image_subpath=shown)
        assert made == (wanted,)
    with pytest.raises(ImageVolumeMountFailed, match=r"^ImageVolumeMountFailed: f\[0\]\.image: .* API 1\.48"):
        make_mounts([mount], dataclasses.replace(facts, api_version=(1, 47), storage_driver="vfs"), "f")


@pytest.mark.parametrize(("store", "driver"), [(False, "overlay2"), (True, "overlay2"), (False, "zfs")])
def test_an_images_files_on_an_old_engine(facts: EngineFacts, *, store: bool, driver: str) -> None:
    """Where its layers are folders, a view can be made of them."""
    old = dataclasses.replace(facts, api_version=(1, 41), storage_driver=driver, containerd_store=store)
    mount = Mount(container_path="/x", image=VOLUME, readonly=True)
    if driver == "overlay2" and not store:
        assert make_mounts([mount], old, "f") == (
            EngineMount(source="sha256:x", target="/x", image=True, readonly=True),
        )
    else:
        with pytest.raises(ImageVolumeMountFailed, match="overlay2"):
            make_mounts([mount], old, "f")


def test_relabelling_is_refused_where_selinux_is_on(tmp_path: Path, facts: EngineFacts) -> None:
    facts = dataclasses.replace(facts, security=frozenset({"selinux"}))
    with pytest.raises(UnsupportedField):
        make_mounts([Mount(container_path="/x", host_path=str(tmp_path), selinux_relabel=True)], facts, "f")


def test_recursion_needs_the_engine(tmp_path: Path, facts: EngineFacts) -> None:
    mount = Mount(container_path="/x", host_path=str(tmp_path), readonly=True, recursive_read_only=True)
    with pytest.raises(RROUnsupported, match=r"^RROUnsupported: "):
        make_mounts([mount], old(facts), "f")
    with pytest.raises(RROUnsupported):
        make_mounts([mount], dataclasses.replace(facts, kernel="5.11.0-1"), "f")


# --- devices


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        (Device(host_path="/dev/null"), EngineDevice(host_path="/dev/null", container_path="/dev/null")),
        (
            Device(host_path="/dev/null", container_path="/dev/x", permissions="r"),
            EngineDevice(host_path="/dev/null", container_path="/dev/x", permissions="r"),
        ),
    ],
)
def test_device(asked: Device, made: EngineDevice) -> None:
    assert make_devices([asked], "f") == (made,)


def test_a_folder_stands_for_the_devices_in_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "sub" / "zero").symlink_to("/dev/zero")
    (tmp_path / "file").write_text("")
    made = make_devices([Device(host_path=str(tmp_path), container_path="/dev/all", permissions="rw")], "f")
    assert [(d.container_path, d.permissions) for d in made] == [("/dev/all/null", "rw"), ("/dev/all/sub/zero", "rw")]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (Device(host_path="/dev/null", permissions="rx"), "f[1].permissions"),
        (Device(host_path=""), "f[1].host_path"),
        (Device(host_path="/dev/no-such"), "f[1].host_path"),
        (Device(host_path="/etc/passwd"), "f[1].host_path"),
        (Device(host_path="/dev/null", container_path="x"), "f[1].container_path"),
    ],
)
def test_device_refused(asked: Device, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make_devices([Device(host_path="/dev/null"), asked], "f")
    assert caught.value.field == field


def test_a_link_in_a_folder_that_leads_nowhere_is_no_device(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to("/does/not/exist")
    assert make_devices([Device(host_path=str(tmp_path))], "f") == ()


def test_cdi(facts: EngineFacts) -> None:
    cdi = dataclasses.replace(facts, cdi=True)
    names = [CDIDevice(name="vendor.com/class=device"), CDIDevice(name="a/b=0:1")]
    assert make_cdi_devices(names, cdi, "f") == ("vendor.com/class=device", "a/b=0:1")
    assert make_cdi_devices([], old(facts), "f") == ()
    for engine in (dataclasses.replace(facts, cdi=False), old(cdi)):
        with pytest.raises(UnsupportedField) as caught:
            make_cdi_devices(names, engine, "f")
        assert caught.value.field == "f"
    for name in ("", "device", "vendor/class", "/class=x", "vendor/class=", "vendor/class=a b"):
        with pytest.raises(InvalidArgument) as refused:
            make_cdi_devices([CDIDevice(name=name)], cdi, "f")
        assert refused.value.field == "f[0].name"
