"""The SQLite store beyond the contract: rows, foreign and newer files, what is salvaged, and who may come in."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path
from typing import IO, Literal

import pytest

from crishim.checkpoint import database
from crishim.checkpoint.api import Loaded
from crishim.checkpoint.errors import StoreUnavailable
from crishim.checkpoint.sqlite import SqliteStore
from crishim.testing.checkpoint_contract.records import make_id, make_record


async def fill(folder: Path, *names: str, containers: int = 1) -> Path:
    store = SqliteStore(folder)
    await store.open()
    for name in names:
        await store.put(make_record(name, containers=containers))
    await store.put_value("key", "value")
    await store.close()
    return store.path


async def load(folder: Path) -> Loaded:
    store = SqliteStore(folder)
    await store.open()
    try:
        return await store.load()
    finally:
        await store.close()


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    "value", ["x'00'", "'text'", "7", "x''", "x'7b7d'"], ids=["noise", "text", "number", "empty", "object"]
)
async def test_a_bad_row_moves_to_another_table(tmp_path: Path, value: str) -> None:
    path = await fill(tmp_path, "good", "bad")
    change(path, f"UPDATE sandboxes SET record = {value} WHERE id = '{make_id('bad')}'")
    loaded = await load(tmp_path)
    assert [record.id for record in loaded.records] == [make_id("good")]
    (aside,) = loaded.set_aside
    assert aside.name == make_id("bad")
    assert aside.kept_at == f"{path}, table set_aside, number 1"
    with closing(sqlite3.connect(path)) as connection:
        ((name, kept, expected),) = connection.execute(f"SELECT name, record, {value} FROM set_aside")
    assert (name, kept) == (make_id("bad"), expected)
    assert (await load(tmp_path)).set_aside == ()


async def test_an_id_that_is_no_text_stops_nothing(tmp_path: Path) -> None:
    path = await fill(tmp_path, "good", "bad")
    change(path, f"UPDATE sandboxes SET id = CAST(x'ff62' AS TEXT) WHERE id = '{make_id('bad')}'")
    loaded = await load(tmp_path)
    assert [record.id for record in loaded.records] == [make_id("good")]
    assert [aside.name for aside in loaded.set_aside] == ["\\xffb"]


async def test_records_of_a_damaged_file_are_salvaged(tmp_path: Path) -> None:
    path = await fill(tmp_path, *(f"pod-{number}" for number in range(40)))
    data = bytearray(path.read_bytes())
    # The root page of the index on ids: quick_check finds it, and no record is concerned.
    with closing(sqlite3.connect(path)) as connection:
        ((page,),) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'sandboxes'"
        )
        ((size,),) = connection.execute("PRAGMA page_size")
    data[(page - 1) * size : page * size] = os.urandom(size)
    path.write_bytes(data)
    loaded = await load(tmp_path)
    assert len(loaded.records) == 40
    (aside,) = loaded.set_aside
    assert "40 records in it could be read" in aside.reason
    assert Path(aside.kept_at).read_bytes() == data
    assert (await load(tmp_path)).set_aside == ()


async def test_what_cannot_be_reached_is_told(tmp_path: Path) -> None:
    path = await fill(tmp_path, *(f"pod-{number}" for number in range(40)))
    os.truncate(path, path.stat().st_size // 2)
    loaded = await load(tmp_path)
    assert len(loaded.records) < 40
    (aside,) = loaded.set_aside
    assert (aside.name, Path(aside.kept_at).name[:21]) == ("checkpoint.db", "checkpoint.db.corrupt")
    store = SqliteStore(tmp_path)
    await store.open()
    assert await store.get_value("key") in (None, "value")
    await store.close()


@pytest.mark.parametrize("log", [False, True], ids=["alone", "with a log"])
async def test_a_file_cut_short_anywhere_is_survived(tmp_path: Path, log: bool) -> None:
    """At each border of a page, a byte to both sides of it, and between: it is told, and nothing else is believed."""
    originals = {record.id: record for record in (make_record(f"pod-{number}", containers=2) for number in range(4))}
    path = await fill(tmp_path / "whole", *(f"pod-{number}" for number in range(4)), containers=2)
    data, left = path.read_bytes(), b""
    with closing(sqlite3.connect(path)) as connection:
        ((page,),) = connection.execute("PRAGMA page_size")
    if log:  # of another page than the last: what a server leaves that was killed
        store = SqliteStore(tmp_path / "whole")
        await store.open()
        await store.put_value("key", "other")
        data, left = path.read_bytes(), Path(f"{path}-wal").read_bytes()
        await store.close()
        assert left
    sizes = {border + more for border in range(0, len(data) + 1, page) for more in (-1, 0, 1, page // 2)}
    found = {}
    for size in sorted(size for size in sizes if 0 <= size < len(data)):
        folder = tmp_path / str(size)
        folder.mkdir()
        (folder / path.name).write_bytes(data[:size])
        if log:
            (folder / f"{path.name}-wal").write_bytes(left)
        loaded = await load(folder)
        assert all(originals[record.id] == record for record in loaded.records), size
        assert loaded.set_aside or len(loaded.records) == len(originals), size
        assert (await load(folder)).set_aside == (), size
        found[size] = len(loaded.records)
    assert found[len(data) - 1] == found[len(data) - page] == len(originals) - 1  # a record's last page is missing


async def test_all_but_what_was_cut_off_is_salvaged(tmp_path: Path) -> None:
    path = await fill(tmp_path, *(f"pod-{number}" for number in range(40)))
    data = path.read_bytes()[: path.stat().st_size * 3 // 4]
    path.write_bytes(data)
    loaded = await load(tmp_path)
    (aside,) = loaded.set_aside
    assert f"; {len(loaded.records)} records in it could be read" in aside.reason
    assert 20 < len(loaded.records) < 40
    assert Path(aside.kept_at).read_bytes() == data
    assert (await load(tmp_path)).records == loaded.records


@pytest.mark.parametrize("readable", [True, False], ids=["disk fails", "file cannot be read"])
async def test_an_error_of_the_disk_costs_no_good_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readable: bool
) -> None:
    """An error that is no truncation leaves a file that can be read where it is, and one that cannot be is kept."""
    path = await fill(tmp_path, "pod")
    before = path.read_bytes()
    prepare, opened = database._prepare, Path.open
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
    failures = iter([error])

    def failing(connection: sqlite3.Connection, where: Path) -> None:
        for failure in failures:
            raise failure
        prepare(connection, where)

    def bad_sector(file: Path, mode: Literal["rb"]) -> IO[bytes]:
        if file == path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return opened(file, mode)

    with monkeypatch.context() as patch:
        patch.setattr(database, "_prepare", failing)
        if readable:
            with pytest.raises(StoreUnavailable, match=r"disk I/O error .*left as it is"):
                await load(tmp_path)
            assert [file.name for file in tmp_path.iterdir()] == [path.name]
        else:
            patch.setattr(Path, "open", bad_sector)
            (aside,) = (await load(tmp_path)).set_aside
            assert aside.reason.startswith("disk I/O error")
            path = Path(aside.kept_at)
    assert path.read_bytes() == before
    assert [record.id for record in (await load(tmp_path)).records] == [make_id("pod")]


@pytest.mark.parametrize(
    ("statements", "word"),
    [
        ([f"PRAGMA user_version = {database.SCHEMA_VERSION + 1}"], "newer"),
        (["PRAGMA application_id = 7"], "foreign"),
        (["DROP TABLE node_values"], "corrupt"),
        (["ALTER TABLE sandboxes RENAME COLUMN record TO data"], "corrupt"),
    ],
    ids=["newer", "foreign", "table gone", "column renamed"],
)
async def test_files_that_are_not_our_tables(tmp_path: Path, statements: list[str], word: str) -> None:
    path = await fill(tmp_path, "pod")
    change(path, *statements)
    before = path.read_bytes()
    loaded = await load(tmp_path)
    (aside,) = loaded.set_aside
    assert f".{word}-" in aside.kept_at
    assert Path(aside.kept_at).read_bytes() == before
    assert len(loaded.records) == (statements == ["DROP TABLE node_values"])
    assert (await load(tmp_path)).set_aside == ()


async def test_several_damaged_files_in_one_second_are_all_kept(tmp_path: Path) -> None:
    kept = set()
    for number in range(3):
        (tmp_path / "checkpoint.db").write_text(f"no database {number}")
        kept |= {aside.kept_at for aside in (await load(tmp_path)).set_aside}
    assert {Path(path).read_text() for path in kept} == {f"no database {number}" for number in range(3)}


async def test_the_log_of_a_killed_server_is_read_and_a_damaged_one_survived(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a")
    await store.open()
    await store.put(make_record("pod"))
    # Copied while open: what a killed server leaves.
    for case in ("whole", "damaged", "folder"):
        (tmp_path / case).mkdir()
        for file in (tmp_path / "a").iterdir():
            (tmp_path / case / file.name).write_bytes(file.read_bytes())
    await store.close()
    assert (tmp_path / "whole" / "checkpoint.db-wal").stat().st_size > 0
    assert len((await load(tmp_path / "whole")).records) == 1
    (tmp_path / "damaged" / "checkpoint.db-wal").write_bytes(b"noise" * 1000)
    await load(tmp_path / "damaged")
    (tmp_path / "folder" / "checkpoint.db-wal").unlink()
    (tmp_path / "folder" / "checkpoint.db-wal").mkdir()
    assert len((await load(tmp_path / "folder")).set_aside) == 1
    (tmp_path / "whole" / "checkpoint.db-journal").mkdir()  # an I/O error to SQLite, and no fault of the disk
    loaded = await load(tmp_path / "whole")
    assert (len(loaded.records), len(loaded.set_aside)) == (1, 1)


async def test_a_state_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    store = SqliteStore(tmp_path / "file")
    with pytest.raises(StoreUnavailable, match="file"):
        await store.open()
    await store.close()


async def test_a_failed_write_is_told_and_leaves_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    await store.put(make_record("pod"))

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(database.Database, "write", full)
        with pytest.raises(StoreUnavailable, match="disk is full"):
            await store.put(make_record("pod", revision=1))
    assert (await store.load()).records == (make_record("pod"),)
    await store.close()


async def test_nothing_is_left_of_a_making_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.db.new-abc").write_text("x")
    (tmp_path / "checkpoint.db.salvage-abc").mkdir()
    (tmp_path / "checkpoint.db.salvage-abc" / "copy").write_text("x")
    await fill(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.db"]
    assert stat.S_IMODE((tmp_path / "checkpoint.db").stat().st_mode) == 0o600


async def test_no_thread_is_left(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    await fill(tmp_path, "pod")
    assert set(threading.enumerate()) == before


async def test_work_is_done_in_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()
    write = database.Database.write

    def noted(self: database.Database, *args: object) -> None:
        threads.add(threading.current_thread().name)
        write(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(database.Database, "write", noted)
    await fill(tmp_path, "a", "b")
    assert len(threads) == 1
    assert threads != {threading.main_thread().name}
