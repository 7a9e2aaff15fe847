"""What a layer holds, counted bit by bit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from crishim.stats.layer import Walk, find_layer


def fill(folder: Path) -> None:
    for number in range(30):
        (folder / f"d{number}").mkdir(parents=True)
        (folder / f"d{number}" / "file").write_bytes(b"x" * 5000)
    os.link(folder / "d0" / "file", folder / "again")
    os.symlink("/etc", folder / "etc")
    os.mkfifo(folder / "fifo")


def test_as_du_counts(tmp_path: Path) -> None:
    fill(tmp_path)
    walk = Walk(str(tmp_path))
    assert walk.go_on(10_000)
    used = int(subprocess.run(["du", "-s", "-B1", tmp_path], capture_output=True, check=True).stdout.split()[0])
    inodes = int(subprocess.run(["du", "-s", "--inodes", tmp_path], capture_output=True, check=True).stdout.split()[0])
    assert (walk.used_bytes, walk.inodes) == (used, inodes)
    assert walk.layer(5).complete


def test_bit_by_bit_is_the_same(tmp_path: Path) -> None:
    fill(tmp_path)
    whole, walk, steps = Walk(str(tmp_path)), Walk(str(tmp_path)), 1
    whole.go_on(10_000)
    assert not walk.go_on(1)
    assert not walk.layer(5).complete
    while not walk.go_on(1):
        steps += 1
    assert steps > 20
    assert walk.layer(5) == whole.layer(5)


def test_a_layer_that_goes_while_it_is_counted(tmp_path: Path) -> None:
    fill(tmp_path)
    walk = Walk(str(tmp_path))
    walk.go_on(1)
    for path in tmp_path.glob("d*"):
        (path / "file").unlink()
        path.rmdir()
    assert walk.go_on(10_000)
    assert Walk(str(tmp_path / "none")).go_on(10)


def test_where_a_layer_lies(tmp_path: Path) -> None:
    assert find_layer(str(tmp_path), 0, "/v/overlay2/a/merged") == "/v/overlay2/a/diff"
    assert find_layer(str(tmp_path), 77, "/v/overlay2/a/merged") == "/v/overlay2/a/diff"
    assert find_layer(str(tmp_path), 0, "") is None
    assert find_layer(str(tmp_path), 0, "/v/btrfs/a") is None
