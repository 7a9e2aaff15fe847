"""Of which layers an engine's overlay is made, as mount tables tell."""

from __future__ import annotations

import pytest

from crishim.errors import FrontFailed
from crishim.front.idmap import Layers, find_layers

HOME = "/var/lib/docker/overlay2"
SNAPSHOTS = "/var/lib/docker/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots"
MERGED = f"{HOME}/abc/merged"


def line(point: str, options: str, kind: str = "overlay") -> str:
    return f"67 43 0:39 / {point} rw,relatime shared:5 - {kind} overlay rw,{options}"


@pytest.mark.parametrize(
    ("options", "layers"),
    [
        (
            f"lowerdir={HOME}/l/X:{HOME}/l/Y,upperdir={HOME}/abc/diff,workdir={HOME}/abc/work,index=off",
            Layers((f"{HOME}/l/X", f"{HOME}/l/Y"), f"{HOME}/abc/diff"),
        ),
        (
            "lowerdir=l/X:l/Y,upperdir=abc/diff,workdir=abc/work",
            Layers((f"{HOME}/l/X", f"{HOME}/l/Y"), f"{HOME}/abc/diff"),
        ),
        (  # containerd's, of many layers
            f"lowerdir=7/fs:6/fs,upperdir={SNAPSHOTS}/8/fs,workdir={SNAPSHOTS}/8/work",
            Layers((f"{SNAPSHOTS}/7/fs", f"{SNAPSHOTS}/6/fs"), f"{SNAPSHOTS}/8/fs"),
        ),
    ],
)
def test_layers(options: str, layers: Layers) -> None:
    table = "\n".join(
        [line(MERGED, "lowerdir=/old,upperdir=/old"), line("/other", "lowerdir=/x"), line(MERGED, options)]
    )
    assert find_layers(MERGED, table) == layers


@pytest.mark.parametrize(
    "table", ["", line(MERGED, "lowerdir=/x"), line(MERGED, "", kind="ext4"), line("/x", "lowerdir=/x")]
)
def test_what_is_no_overlay(table: str) -> None:
    with pytest.raises(FrontFailed, match="no overlay"):
        find_layers(MERGED, table)
