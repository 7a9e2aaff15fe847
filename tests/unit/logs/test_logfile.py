"""The file at log_path: whose it is, what it must not be, and that it always ends with a whole line."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from crishim.logs.logfile import BadPlace, LogFile

LINE = b"2026-01-01T00:00:00.5Z stdout F text\n"


@pytest.fixture
def file(tmp_path: Path) -> LogFile:
    return LogFile(str(tmp_path / "pod"), "main/0.log")


def test_made_with_its_folders(file: LogFile) -> None:
    file.open()
    assert file.write(LINE) == len(LINE)
    path = Path(file.path)
    assert path.read_bytes() == LINE
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.parent.stat().st_mode & 0o777 == 0o755
    assert file.size() == len(LINE)
    assert repr(file) == f"<LogFile {path}>"


def test_what_is_there_is_appended_to(file: LogFile) -> None:
    path = Path(file.path)
    path.parent.mkdir(parents=True)
    path.write_bytes(LINE)
    file.open()
    file.write(LINE)
    assert path.read_bytes() == LINE * 2


@pytest.mark.parametrize("content", [b"root:x:0:0::/root:/bin/sh\n", b"a b c d\n", b"\0" * 100, b"2026 stdout Q x\n"])
def test_what_is_no_log_is_left_alone(file: LogFile, content: bytes) -> None:
    path = Path(file.path)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(BadPlace, match=f"{path}: exists already"):
        file.open()
    assert path.read_bytes() == content


@pytest.mark.parametrize("what", ["link", "dangling", "folder", "pipe", "middle link", "middle file", "folder file"])
def test_places_that_are_refused(file: LogFile, tmp_path: Path, what: str) -> None:
    path, elsewhere = Path(file.path), tmp_path / "elsewhere"
    elsewhere.mkdir()
    if what == "folder file":
        path.parent.parent.write_text("")
    elif what.startswith("middle"):
        path.parent.parent.mkdir()
        path.parent.symlink_to(elsewhere) if what == "middle link" else path.parent.write_text("")
    else:
        path.parent.mkdir(parents=True)
        if what == "folder":
            path.mkdir()
        elif what == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(elsewhere / "file")
            if what == "link":
                (elsewhere / "file").write_bytes(b"")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadPlace, match=str(tmp_path / "pod")):
        file.open()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_link_above_the_pods_folder_is_the_nodes_own(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "var").symlink_to("disk")
    file = LogFile(str(tmp_path / "var" / "pod"), "0.log")
    file.open()
    assert (tmp_path / "disk" / "pod" / "0.log").exists()


def test_another_shims_link_gives_way(tmp_path: Path) -> None:
    spool = tmp_path / "c-json.log"
    spool.write_bytes(b"the engine's\n")
    (tmp_path / "0.log").symlink_to(spool)
    LogFile(str(tmp_path), "0.log", link=str(spool)).open()
    assert not (tmp_path / "0.log").is_symlink()
    assert spool.read_bytes() == b"the engine's\n"


def test_a_rotated_file_is_written_until_it_is_opened_again(file: LogFile) -> None:
    file.open()
    path = Path(file.path)
    path.rename(f"{path}.1")
    file.write(LINE)
    assert not path.exists()
    assert not file.has_successor()
    old = file.inode
    file.open()
    file.write(LINE * 2)
    assert (Path(f"{path}.1").read_bytes(), path.read_bytes()) == (LINE, LINE * 2)
    again = LogFile(file.folder, file.name)
    assert again.find(old)
    assert again.has_successor()
    assert again.size() == len(LINE)
    assert not again.find(0)


@pytest.mark.parametrize("content", [b"\x1f\x8b\x08\x00 compressed", b"of the host\n"])
def test_a_number_that_is_another_files_by_now(file: LogFile, content: bytes) -> None:
    file.open()
    packed = Path(f"{file.path}.1.gz")
    packed.write_bytes(content)
    assert not LogFile(file.folder, file.name).find(packed.stat().st_ino)
    torn = Path(f"{file.path}.2")
    torn.write_bytes(LINE[:5])
    assert LogFile(file.folder, file.name).find(torn.stat().st_ino)


@pytest.mark.parametrize(("error", "written"), [(errno.ENOSPC, 2), (errno.EDQUOT, 2), (errno.EIO, 0)])
def test_a_write_that_fails_half_way(file: LogFile, monkeypatch: pytest.MonkeyPatch, error: int, written: int) -> None:
    """For want of room, whole lines stay; for other reasons nothing, so that nothing is there twice later."""
    file.open()
    file.write(LINE)
    write, room = os.write, [len(LINE) + 3, len(LINE) - 1]

    def fail(fd: int, data: bytes) -> int:
        if not room:
            raise OSError(error, os.strerror(error))
        return write(fd, data[: room.pop(0)])

    monkeypatch.setattr(os, "write", fail)
    if written:
        assert file.write(LINE * 5) == written * len(LINE)
    else:
        with pytest.raises(OSError, match="Input/output"):
            file.write(LINE * 5)
    assert Path(file.path).read_bytes() == LINE * (1 + written)


def test_opening_that_fails_keeps_the_old_file(file: LogFile) -> None:
    file.open()
    path = Path(file.path)
    path.rename(f"{path}.1")
    path.mkdir()
    with pytest.raises(BadPlace):
        file.open()
    file.write(LINE)
    assert Path(f"{path}.1").read_bytes() == LINE


@pytest.mark.parametrize("torn", [b"2026-01-01T00:00", b"x" * 200_000])
def test_what_a_crash_left_of_a_line_is_cut(file: LogFile, torn: bytes) -> None:
    file.open()
    for kept in (b"", LINE, LINE * 3):
        Path(file.path).write_bytes(kept + torn)
        file.cut()
        assert Path(file.path).read_bytes() == kept
        assert file.tail() == kept


def test_the_tail_is_of_whole_lines(file: LogFile) -> None:
    file.open()
    file.write(LINE * 5000)
    tail = file.tail()
    assert tail == LINE * (len(tail) // len(LINE))
    assert 60_000 < len(tail) <= 65536
