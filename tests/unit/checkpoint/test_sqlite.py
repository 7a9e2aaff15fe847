"""The SQLite store beyond the contract: rows, foreign and newer files, what is salvaged, and who may come in."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest

from crishim.checkpoint import database
from crishim.checkpoint.api import Loaded
from crishim.checkpoint.errors import StoreUnavailable
from crishim.checkpoint.sqlite import SqliteStore
from crishim.testing.checkpoint_contract.records import make_id, make_record


async def fill(folder: Path, *names: str) -> Path:
    store = SqliteStore(folder)
    await store.open()
    for name in names:
        await store.put(make_record(name))
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
