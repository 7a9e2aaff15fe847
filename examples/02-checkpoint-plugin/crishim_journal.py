"""A checkpoint store in one file, `journal` in the state folder, to which every change is appended.

    crishim-journal 1 LENGTH CHECKSUM
    CHECKSUM ["put", "SANDBOX ID", "RECORD"]
    CHECKSUM ["delete", "SANDBOX ID", ""]
    CHECKSUM ["value", "KEY", "VALUE"]

LENGTH tells how far the file is valid and is written after each line: a line that a killed server did not finish is not
counted, and a file shorter than it says was damaged. When most lines are outdated the file is written anew.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crishim.checkpoint.api import CheckpointStore, Loaded, SetAside
from crishim.checkpoint.codec import decode, encode
from crishim.checkpoint.errors import CheckpointError, StoreUnavailable
from crishim.checkpoint.record import SandboxRecord
from crishim.checkpoint.thread import StoreThread

MAGIC = b"crishim-journal 1"
HEADER_SIZE = len(MAGIC) + 27
SLACK = 1 << 20
"""Bytes of outdated lines that are always allowed."""


class JournalStore(CheckpointStore):
    """A checkpoint store that appends."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "journal"
        self._thread = StoreThread(f"checkpoint store {self.path}")
        self._records: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._set_aside: list[SetAside] = []
        self._lock = self._file = -1
        self._end = self._compact_at = 0

    async def open(self) -> None:
        await self._run(self._open, opened=False)

    async def load(self) -> Loaded:
        return await self._run(self._load)

    async def put(self, record: SandboxRecord) -> None:
        data = encode(record).decode()

        def work() -> None:
            self._append("put", record.id, data)
            self._records[record.id] = data

        await self._run(work)

    async def delete(self, sandbox_id: str) -> None:
        def work() -> None:
            if sandbox_id in self._records:
                self._append("delete", sandbox_id, "")
                del self._records[sandbox_id]

        await self._run(work)

    async def get_value(self, key: str) -> str | None:
        return await self._run(lambda: self._values.get(key))

    async def put_value(self, key: str, value: str) -> None:
        def work() -> None:
            self._append("value", key, value)
            self._values[key] = value

        await self._run(work)

    async def close(self) -> None:
        def last() -> None:
            for descriptor in (self._file, self._lock):
                if descriptor >= 0:
                    os.close(descriptor)
            self._file = self._lock = -1

        await self._thread.close(last)

    async def _run(self, work: Callable[[], Any], *, opened: bool = True) -> Any:
        """Do blocking work in the thread, with errors of the system told as the interface says."""

        def in_thread() -> Any:
            if opened and self._file < 0:
                raise StoreUnavailable(f"{self.path} is not open")
            try:
                return work()
            except OSError as error:
                raise StoreUnavailable(f"{self.path}: {error}") from error

        return await self._thread.run(in_thread)

    # All below blocks, and runs in the thread.

    def _open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self.path.with_name("journal.lock")
        if os.path.lexists(lock) and not stat.S_ISREG(lock.lstat().st_mode):
            self._put_aside(lock, "not a regular file")
        self._lock = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreUnavailable(f"{self.path}: another server is using this state folder") from error
        if os.path.lexists(self.path):
            damage = self._read()
            if damage:
                self._put_aside(self.path, damage)
        self._compact()

    def _read(self) -> str:
        """Take in the file's lines; returns what is wrong with it, empty if nothing."""
        try:
            if not stat.S_ISREG(self.path.lstat().st_mode):
                return "not a regular file"
            data = self.path.read_bytes()
        except OSError as error:
            return str(error)
        length = _parse_header(data[:HEADER_SIZE])
        damage = "" if length is not None else "the first line is damaged"
        if length is not None and len(data) < length:
            damage = f"{length - len(data)} bytes are missing"
        bad = 0
        valid = data[HEADER_SIZE:length].removesuffix(b"\n")
        for line in valid.split(b"\n") if valid else ():
            try:
                checksum, body = line[:8], line[9:]
                if int(checksum, 16) != zlib.crc32(body):
                    raise ValueError
                operation, key, text = json.loads(body)
            except ValueError:
                bad += 1
                continue
            match operation:
                case "put":
                    self._records[key] = text
                case "delete":
                    self._records.pop(key, None)
                case "value":
                    self._values[key] = text
        if bad:
            damage = f"{bad} lines are damaged; of what they tell of, older lines may be believed"
        return damage

    def _load(self) -> Loaded:
        records = []
        for sandbox_id, data in list(self._records.items()):
            try:
                records.append(decode(data.encode(), sandbox_id))
            except CheckpointError as error:
                kept = self.path.with_name(f"journal.record-{time.time_ns()}")
                with open(os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                    file.write(data)
                self._append("delete", sandbox_id, "")
                del self._records[sandbox_id]
                self._set_aside.append(SetAside(name=sandbox_id, reason=str(error), kept_at=str(kept)))
        aside, self._set_aside = tuple(self._set_aside), []
        return Loaded(records=tuple(records), set_aside=aside)

    def _append(self, operation: str, key: str, text: str) -> None:
        line = _make_line(operation, key, text)
        if self._end + len(line) > self._compact_at:
            self._compact()
        _write_all(self._file, line, self._end)
        _write_all(self._file, _make_header(self._end + len(line)), 0)
        self._end += len(line)

    def _compact(self) -> None:
        """Write the file anew, without outdated lines, and let it take the old one's place when it is whole."""
        lines = [_make_line("put", *item) for item in self._records.items()]
        lines += [_make_line("value", *item) for item in self._values.items()]
        size = HEADER_SIZE + sum(map(len, lines))
        half = self.path.with_name("journal.half")
        file = os.open(half, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write_all(file, b"".join([_make_header(size), *lines]), 0)
            os.replace(half, self.path)
        except OSError:
            os.close(file)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file, self._end, self._compact_at = file, size, 2 * size + SLACK

    def _put_aside(self, path: Path, reason: str) -> None:
        kept = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
        os.rename(path, kept)
        self._set_aside.append(SetAside(name=path.name, reason=reason, kept_at=str(kept)))


def _make_line(operation: str, key: str, text: str) -> bytes:
    body = json.dumps([operation, key, text]).encode()
    return b"%08x %b\n" % (zlib.crc32(body), body)


def _make_header(length: int) -> bytes:
    digits = b"%016d" % length
    return b"%b %b %08x\n" % (MAGIC, digits, zlib.crc32(digits))


def _parse_header(data: bytes) -> int | None:
    digits = data[len(MAGIC) + 1 : len(MAGIC) + 17]
    return int(digits) if digits.isdigit() and data == _make_header(int(digits)) else None


def _write_all(file: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(file, data, offset)
        data, offset = data[written:], offset + written
