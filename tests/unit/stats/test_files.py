"""Files that stay open as long as their cgroup is looked at."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crishim.stats import files
from crishim.stats.files import Kept, read
from crishim.stats.values import Vanished
from tests.unit.stats.conftest import Tree


def open_under(folder: Path) -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        if target.startswith(str(folder)):
            found.append(target)
    return found


def test_kept_open_and_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("1")
    kept = Kept()
    assert kept.read(str(path)) == b"1"
    path.write_text("22")
    assert (kept.read(str(path)), kept.read_number(str(path))) == (b"22", 22)
    assert (len(kept), open_under(tmp_path)) == (1, [str(path)])
    del kept
    gc.collect()
    assert open_under(tmp_path) == []


def test_what_is_not_there(tmp_path: Path) -> None:
    kept = Kept()
    assert kept.read_if_there(str(tmp_path / "none")) is None
    assert kept.read_number(str(tmp_path / "none")) is None
    for reader in (kept.read, read):
        with pytest.raises(Vanished):
            reader(str(tmp_path / "none"))
    assert len(kept) == 0


@pytest.mark.parametrize("kept_at_most", [100, 0])
def test_lists_are_read_to_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_at_most: int) -> None:
    """The kernel gives a list in pieces that end with an entry, before a page is full."""
    text = b"".join(b"%d\n" % number for number in range(1000, 3000))
    path = tmp_path / "cgroup.procs"
    path.write_bytes(text)
    monkeypatch.setattr(files, "_most", lambda: Kept._count + 1 if kept_at_most else 0)
    pread, plain = os.pread, os.read
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: pread(fd, min(size, 4090), offset))
    monkeypatch.setattr(os, "read", lambda fd, size: plain(fd, min(size, 4090)))
    kept = Kept()
    assert kept.read_list(str(path)) == text
    assert kept.read_list(str(path)) == text
    assert read(str(path)) == text
    assert kept.read_list(str(tmp_path / "none")) == b""


def test_a_list_that_leaves_room_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cgroup.procs"
    reads: list[int] = []
    path.write_text("17\n")
    pread = os.pread

    def noting(descriptor: int, size: int, offset: int) -> bytes:
        reads.append(offset)
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", noting)
    kept = Kept()
    assert kept.read_list(str(path)) == b"17\n"
    assert reads == [0]


def test_what_was_understood_is_remembered_until_the_text_changes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    parsed: list[bytes] = []

    def parse(text: bytes) -> int:
        parsed.append(text)
        return int(text)

    kept = Kept()
    for text in ("1", "1", "2", "1"):
        path.write_text(text)
        assert kept.understand(str(path), parse) == kept.understand_list(str(path), parse) == int(text)
    assert parsed == [b"1", b"2", b"1"]
    assert kept.understand_if_there(str(tmp_path / "none"), parse) is None
    with pytest.raises(Vanished):
        kept.understand(str(tmp_path / "none"), parse)


@pytest.mark.parametrize("kept_at_most", [100, 0])
def test_folders_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_at_most: int) -> None:
    monkeypatch.setattr(files, "_most", lambda: Kept._count + 1 if kept_at_most else 0)
    place, kept = tmp_path / "cgroup", Kept()
    assert not kept.has_folders(str(place))
    place.mkdir()
    assert not kept.has_folders(str(place))
    (place / "below").mkdir()
    assert kept.has_folders(str(place))
    assert len(kept) == bool(kept_at_most)


def test_past_the_limit_files_are_opened_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_most", lambda: Kept._count + 1)
    kept = Kept()
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
        assert kept.read(str(tmp_path / name)) == name.encode()
    monkeypatch.setattr(files, "_most", lambda: 0)
    assert kept.read(str(tmp_path / "b")) == b"b"
    assert kept.read(str(tmp_path / "a")) == b"a"


def test_several_threads(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / str(number)).write_text(str(number))
    kept = Kept()

    def read_all(_: int) -> list[bytes]:
        return [kept.read(str(tmp_path / str(number))) for number in range(50)]

    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(read_all, range(40)))
    assert all(texts == [str(number).encode() for number in range(50)] for texts in told)
    assert (len(kept), len(open_under(tmp_path))) == (50, 50)


def test_a_cgroup_that_is_forgotten_keeps_nothing_open(tree: Tree) -> None:
    kernel = tree.kernel()
    place = kernel.place(tree.container, tree.pids["container"])
    kernel.usage(place)
    kernel.detail(place)
    kernel.usage(place.above)
    assert len(open_under(tree.root)) > 10
    kernel.forget(tree.container)
    del place
    gc.collect()
    assert open_under(tree.root) == []


def test_what_was_found_after_it_was_forgotten_is_closed_in_time(tree: Tree) -> None:
    kernel = tree.kernel()
    kernel.forget(tree.container)
    kernel.usage(kernel.place(tree.container, tree.pids["container"]))  # by a reader that came too late
    kernel.usage(kernel.place(tree.sandbox, tree.pids["sandbox"]))
    others = len(kernel._places)
    kernel.keep({tree.sandbox})
    assert (others, len(kernel._places)) == (2, 1)
    gc.collect()
    opened = open_under(tree.root)
    assert opened
    assert [path for path in opened if tree.container in path] == []
