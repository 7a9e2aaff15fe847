"""A store one can read with `cat`: one JSON file for each sandbox, under `checkpoint/` in the state folder.

`sandboxes/ID.json` holds a record, `node-values.json` the node's values, `set-aside/` what could not be read, `lock`
tells that a server uses the folder. Every write goes to a new file, which is synced, takes the old one's place, and
whose folder is synced: it survives a power cut, too, and costs what two syncs cost on the disk.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote

from crishim.checkpoint.api import CheckpointStore, Loaded, SetAside
from crishim.checkpoint.codec import decode, encode
from crishim.checkpoint.errors import CheckpointError, CorruptRecord, StoreUnavailable
from crishim.checkpoint.record import SandboxRecord
from crishim.checkpoint.thread import StoreThread

T = TypeVar("T")
_HALF = ".half"
"""End of the name of a file that is being written."""


class FileStore(CheckpointStore):
    """A checkpoint store of JSON files."""

    def __init__(self, state_dir: Path) -> None:
        """`state_dir`: the folder in which `checkpoint/` lies; made by `open` if it is not there."""
        self.path = state_dir / "checkpoint"
        self._sandboxes = self.path / "sandboxes"
        self._values_file = self.path / "node-values.json"
        self._aside_dir = self.path / "set-aside"
        self._thread = StoreThread(f"checkpoint store {self.path}")
        self._values: dict[str, str] = {}
        self._set_aside: list[SetAside] = []
        self._lock = -1

    def __repr__(self) -> str:
        return f"<FileStore {self.path}>"

    async def open(self) -> None:
        """Make the folders where they are missing, take the lock, and remove halves that a killed server left."""
        await self._run(self._open, opened=False)

    def _open(self) -> None:
        for folder in (self.path, self._aside_dir, self._sandboxes):
            if os.path.lexists(folder) and not folder.is_dir():
                self._put_aside(folder, folder.name, "not a folder")
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock_file = self.path / "lock"
        if os.path.lexists(lock_file) and not stat.S_ISREG(lock_file.lstat().st_mode):
            self._put_aside(lock_file, lock_file.name, "not a regular file")
        lock = os.open(lock_file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise StoreUnavailable(f"{self.path}: another server is using this state folder") from error
        self._lock = lock
        for folder in (self.path, self._sandboxes):
            for half in folder.glob(f"*{_HALF}"):
                half.unlink()
        self._values = self._read_values()

    def _read_values(self) -> dict[str, str]:
        try:
            values = json.loads(self._values_file.read_bytes())
            if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
                raise CorruptRecord("not an object of strings")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, CheckpointError) as error:
            self._put_aside(self._values_file, self._values_file.name, str(error))
            return {}
        return values

    async def load(self) -> Loaded:
        """All records. Bad ones move to `set-aside/`."""
        return await self._run(self._load)

    def _load(self) -> Loaded:
        records: list[SandboxRecord] = []
        for path in sorted(self._sandboxes.iterdir()):
            name = unquote(path.name.removesuffix(".json"))
            try:
                if path.suffix != ".json":
                    raise CorruptRecord("not a record's file name")
                records.append(decode(path.read_bytes(), name))
            except (OSError, CheckpointError) as error:
                self._put_aside(path, name, str(error))
        aside, self._set_aside = tuple(self._set_aside), []
        return Loaded(records=tuple(records), set_aside=aside)

    async def put(self, record: SandboxRecord) -> None:
        """Write a record's file."""
        data = encode(record)
        await self._run(lambda: _replace(self._file_of(record.id), data))

    async def delete(self, sandbox_id: str) -> None:
        """Remove a record's file."""
        await self._run(lambda: self._delete(self._file_of(sandbox_id)))

    def _delete(self, path: Path) -> None:
        try:
            path.unlink()
        except FileNotFoundError:
            return
        _sync_folder(path.parent)

    async def get_value(self, key: str) -> str | None:
        """A value of the node."""
        return await self._run(lambda: self._values.get(key))

    async def put_value(self, key: str, value: str) -> None:
        """Write the node's values anew."""

        def work() -> None:
            values = {**self._values, key: value}
            _replace(self._values_file, json.dumps(values, indent=1, sort_keys=True).encode())
            self._values = values

        await self._run(work)

    async def close(self) -> None:
        """Release the lock."""

        def last() -> None:
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

        await self._thread.close(last)

    def _file_of(self, sandbox_id: str) -> Path:
        """Where a sandbox's record lies. Ids of engines are plain; quoting keeps any other inside the folder."""
        return self._sandboxes / f"{quote(sandbox_id, safe='').replace('.', '%2E')}.json"

    def _put_aside(self, path: Path, name: str, reason: str) -> None:
        """Move something unreadable away. Where even that fails it stays, and is told so."""
        folder = self._aside_dir if self._aside_dir.is_dir() else path.parent
        target = folder / f"{path.name}.{time.time_ns()}"
        try:
            os.rename(path, target)
        except OSError as error:
            reason, target = f"{reason}; cannot be moved: {error}", path
        self._set_aside.append(SetAside(name=name, reason=reason, kept_at=str(target)))

    async def _run(self, work: Callable[[], T], *, opened: bool = True) -> T:
        def in_thread() -> T:
            if opened and self._lock < 0:
                raise StoreUnavailable(f"{self.path} is not open")
            try:
                return work()
            except OSError as error:
                raise StoreUnavailable(f"{self.path}: {error}") from error

        return await self._thread.run(in_thread)


def _replace(path: Path, data: bytes) -> None:
    """Put new content in a file's place, so that a reader or a crash meets the old or the new, nothing between."""
    half = path.with_name(path.name + _HALF)
    try:
        descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(half, path)
    except OSError:
        with suppress(OSError):
            half.unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
