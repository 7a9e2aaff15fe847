"""What a layer holds, counted bit by bit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from crishim.stats import layers
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


def test_small_layers_are_counted_together_and_a_large_one_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "_SLICE", 100)
    sizes = {"a": 3, "b": 4, "none": 0, "large": 250, "c": 2, "d": 1}
    for name, size in sizes.items():
        for number in range(size):
            (tmp_path / name / f"d{number}").mkdir(parents=True)
            (tmp_path / name / f"d{number}" / "file").touch()
    walks = [Walk(str(tmp_path / name)) for name in sizes]
    left, rounds = list(walks), []
    while left:
        rounds.append(layers._walk_on(left))
        left = left[rounds[-1] :]
    assert rounds[0] == 3, "as many as fit, and that which is not there"
    assert rounds[1:3] == [0, 0], "the large one takes several"
    assert [walk.inodes for walk in walks] == [2 * size + 1 if size else 0 for size in sizes.values()]
    assert all(walk.done or not walk.inodes for walk in walks)
