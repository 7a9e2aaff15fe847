"""The database of the SQLite store: its tables, and what is done when the file is not fit for use. All of it blocks.

A file that is damaged, of a newer crishim, of another program, unreadable, or no file at all is renamed, and a new
one takes its place. Of a damaged one the records that can still be read whole go into the new one: each holds the
only account of how its pod was attached to the network.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from crishim.checkpoint.api import Loaded, SetAside
from crishim.checkpoint.codec import decode
from crishim.checkpoint.errors import CheckpointError, CorruptRecord, StoreUnavailable
from crishim.checkpoint.record import SandboxRecord

APPLICATION_ID = 0x63726973
"""Tells `file` and us that a database is a checkpoint store (`cris`)."""
SCHEMA_VERSION = 1
"""Of the tables; records have a version of their own."""
_TABLES = (
    "CREATE TABLE sandboxes (id TEXT PRIMARY KEY NOT NULL, record BLOB NOT NULL)",
    "CREATE TABLE node_values (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL)",
    "CREATE TABLE set_aside (number INTEGER PRIMARY KEY, time INTEGER NOT NULL, name TEXT NOT NULL,"
    " reason TEXT NOT NULL, record BLOB)",
)
_READS = (
    "SELECT id, record FROM sandboxes",
    "SELECT key, value FROM node_values",
    "SELECT number, time, name, reason, record FROM set_aside LIMIT 0",
)
"""All that is ever read, and every column that is written."""
_LOCK_WAIT = 1.0
"""Seconds: a server that is just ending may still hold the lock."""
_NOT_THE_FILE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM)
_MOST_MISSING = 1 << 30
"""Bytes: a header that speaks of more than that is itself the damage."""


class _Unusable(Exception):  # noqa: N818 - a verdict on the file, not a failure
    """The file cannot be the store. `word` goes into its new name."""

    def __init__(self, reason: str, word: str = "corrupt") -> None:
        super().__init__(reason)
        self.word = word


class Database:
    """An open database, held by nobody else. Methods raise sqlite3.Error; opening raises StoreUnavailable."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._set_aside: list[SetAside] = []
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                self._connection = _connect(path)
            except _Unusable as verdict:
                self._connection = self._replace(verdict)
            _tidy(path)
        except (OSError, _Unusable) as error:
            raise StoreUnavailable(f"{path}: {error}") from error

    def _replace(self, verdict: _Unusable) -> sqlite3.Connection:
        kept = _rename(self._path, verdict.word)
        records, values = _salvage(kept, self._path.name) if verdict.word == "corrupt" else ([], [])
        connection = _connect(self._path)
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO sandboxes VALUES (?, ?)", records)
        connection.executemany("INSERT INTO node_values VALUES (?, ?)", values)
        connection.execute("COMMIT")
        reason = f"{verdict}; {len(records)} records in it could be read and are kept" if records else str(verdict)
        self._set_aside.append(SetAside(name=self._path.name, reason=reason, kept_at=str(kept)))
        return connection

    def load(self) -> Loaded:
        """All records, and what was found unreadable since the last time."""
        records: list[SandboxRecord] = []
        for row, name, data in self._connection.execute("SELECT rowid, id, record FROM sandboxes").fetchall():
            try:
                if not isinstance(data, bytes):
                    raise CorruptRecord("no bytes")
                records.append(decode(data, name))
            except CheckpointError as error:
                self._set_aside.append(self._put_aside(row, name, str(error)))
        aside, self._set_aside = tuple(self._set_aside), []
        return Loaded(records=tuple(records), set_aside=aside)

    def _put_aside(self, row: int, name: str, reason: str) -> SetAside:
        execute = self._connection.execute
        execute("BEGIN")
        try:
            kept = execute(
                "INSERT INTO set_aside (time, name, reason, record)"
                " SELECT ?, ?, ?, record FROM sandboxes WHERE rowid = ?",
                (time.time_ns(), name, reason, row),
            ).lastrowid
            execute("DELETE FROM sandboxes WHERE rowid = ?", (row,))
            execute("COMMIT")
        except BaseException:
            execute("ROLLBACK")
            raise
        return SetAside(name=name, reason=reason, kept_at=f"{self._path}, table set_aside, number {kept}")

    def write(self, statement: str, values: tuple[str | bytes, ...]) -> None:
        """Carry out a statement that changes something, as a transaction."""
        self._connection.execute(statement, values)

    def value(self, key: str) -> str | None:
        """A value of the node."""
        row = self._connection.execute("SELECT value FROM node_values WHERE key = ?", (key,)).fetchone()
        return row[0] if row is not None and isinstance(row[0], str) else None

    def close(self) -> None:
        """Close."""
        self._connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    """Open, lock and check a database, made where there is none. Raises _Unusable, StoreUnavailable or OSError."""
    if not os.path.lexists(path):
        _make(path)
    if not stat.S_ISREG(path.lstat().st_mode):
        raise _Unusable("not a regular file")
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(path, timeout=_LOCK_WAIT, isolation_level=None)
        _prepare(connection, path)
    except sqlite3.Error as error:
        code: int = getattr(error, "sqlite_errorcode", 0)
        if code & 0xFF in _NOT_THE_FILE:
            raise StoreUnavailable(f"{path}: {error} (is another server using this state folder?)") from error
        # To SQLite a read past the end of the file is an I/O error, too; others are no fault of what is in the file.
        if code & 0xFF == sqlite3.SQLITE_IOERR and code != sqlite3.SQLITE_IOERR_SHORT_READ:
            if connection is not None:
                connection.close()  # now, as the file is opened beside it, and its lock ends when that is closed
            _read_through(path, error)
        short = "truncated: " if code == sqlite3.SQLITE_IOERR_SHORT_READ else ""
        raise _Unusable(f"{short}{error}") from error
    else:
        opened, connection = connection, None
        return opened
    finally:
        if connection is not None:
            connection.close()


def _read_through(path: Path, error: sqlite3.Error) -> None:
    """Return if it is reading that fails: a database that none can read is set aside. Else raise StoreUnavailable."""
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-journal")):
        try:
            with name.open("rb") as file:
                while file.read(1 << 20):
                    pass
        except FileNotFoundError:
            continue
        except OSError:
            return
    raise StoreUnavailable(f"{path}: {error} (the disk fails; the file can be read and is left as it is)") from error


def _whole_size(path: Path) -> int:
    """Bytes that a database has by its own header (https://sqlite.org/fileformat.html 1.3), 0 if it tells none."""
    with path.open("rb") as file:
        header = file.read(100)
    size = {1: 1 << 16}.get(found := int.from_bytes(header[16:18], "big"), found)  # 65536 is written as 1
    return size * int.from_bytes(header[28:32], "big")


def _make(path: Path) -> None:
    """Make a database without records. It takes its name only when it is whole, so that an empty file is damage."""
    # Its mode is 0600, and so is that of all that SQLite puts beside it: records may hold secrets of pods.
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.new-", dir=path.parent)
    os.close(descriptor)
    try:
        with closing(sqlite3.connect(name, isolation_level=None)) as connection:
            for statement in (
                "BEGIN",
                *_TABLES,
                f"PRAGMA application_id = {APPLICATION_ID}",
                f"PRAGMA user_version = {SCHEMA_VERSION}",
                "COMMIT",
            ):
                connection.execute(statement)
        with suppress(FileExistsError):  # another server was quicker
            os.link(name, path)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{path}: cannot be made: {error}") from error
    finally:
        os.unlink(name)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.text_factory = _text
    execute = connection.execute
    execute("PRAGMA locking_mode = EXCLUSIVE")
    execute("PRAGMA journal_mode = WAL")
    execute("PRAGMA synchronous = NORMAL")
    execute("BEGIN EXCLUSIVE")
    if (found := execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise _Unusable(found)
    if execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0:
        raise _Unusable("empty")
    if execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise _Unusable("a database of another program", "foreign")
    version = execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise _Unusable(f"tables of version {version}, this crishim knows {SCHEMA_VERSION}", "newer")
    # What is missing of the last page is read as zeros, or (newer SQLite, in long rows) is an I/O error. Where no log
    # may have that page, it is told before either.
    whole = execute("PRAGMA page_count").fetchone()[0] * execute("PRAGMA page_size").fetchone()[0]
    if (size := path.stat().st_size) < whole and not _has_log(path):
        raise _Unusable(f"truncated, {size} bytes of {whole}")
    # quick_check looks at how pages hang together, and not into long rows: what cannot be read must be known by now.
    for statement in _READS:
        for _ in execute(statement):
            pass
    execute("COMMIT")


def _has_log(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.stat(f"{path}-wal").st_size > 0
    return False


def _rename(path: Path, word: str) -> Path:
    """Move a database and what belongs to it out of the way; returns where it is now."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    kept, again = path.with_name(f"{path.name}.{word}-{stamp}"), 1
    while os.path.lexists(kept):
        again += 1
        kept = path.with_name(f"{path.name}.{word}-{stamp}-{again}")
    for suffix in ("", "-wal", "-shm", "-journal"):
        if os.path.lexists(f"{path}{suffix}"):
            os.rename(f"{path}{suffix}", f"{kept}{suffix}")
    return kept


def _tidy(path: Path) -> None:
    """Remove what a server left that was killed while it made or mended a database. The lock must be held."""
    for left in path.parent.glob(f"{path.name}.new-*"):
        left.unlink(missing_ok=True)
    for left in path.parent.glob(f"{path.name}.salvage-*"):
        shutil.rmtree(left, ignore_errors=True)


def _salvage(kept: Path, name: str) -> tuple[list[tuple[str, bytes]], list[tuple[str, str]]]:
    """The rows of a damaged database that are whole. It is read from a copy, as reading would change it."""
    records: dict[str, bytes] = {}
    values: dict[str, str] = {}
    if not stat.S_ISREG(kept.lstat().st_mode):
        return [], []
    with tempfile.TemporaryDirectory(prefix=f"{name}.salvage-", dir=kept.parent) as folder, suppress(OSError):
        copy = Path(folder, "copy")
        shutil.copyfile(kept, copy)
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{kept}-wal", f"{copy}-wal")
        # Pages that are missing are empty ones from here on: SQLite reads nothing of a file that is short of them.
        if copy.stat().st_size < (whole := _whole_size(copy)) <= _MOST_MISSING:
            os.truncate(copy, whole)
        for sandbox_id, data in _rows(copy, "SELECT id, record FROM sandboxes NOT INDEXED"):
            with suppress(CheckpointError, TypeError):
                decode(data, sandbox_id)
                records[sandbox_id] = data
        pairs = _rows(copy, "SELECT key, value FROM node_values NOT INDEXED")
        # A zero is what is missing of a page.
        values = {k: v for k, v in pairs if isinstance(k, str) and isinstance(v, str) and "\0" not in k + v}
    return list(records.items()), list(values.items())


def _rows(path: Path, query: str) -> list[tuple[Any, Any]]:
    """Rows of a damaged database, up to the first that cannot be reached."""
    rows: list[tuple[Any, Any]] = []
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as connection:
        connection.text_factory = _text
        for row in connection.execute(query):
            rows.append(row)  # noqa: PERF402 - what was read before an error must stay
    return rows


def _text(raw: bytes) -> str:
    """Text of a cell; what is no UTF-8 is spelt out, so that it cannot stop the reading of other rows."""
    return raw.decode(errors="backslashreplace")
