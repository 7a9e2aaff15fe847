"""Orders to the writer and its answers as JSON values (their form is told in `crishim.logs.desk`)."""

from __future__ import annotations

from typing import Any

from crishim.logs.api import LogPlaces, LogProgress


def make_order(number: int, what: str, container_id: str) -> dict[str, Any]:
    """An order about a log that is written."""
    return {"n": number, "do": what, "id": container_id}


def make_begin(number: int, places: LogPlaces, at: LogProgress | None, *, new: bool) -> dict[str, Any]:
    """The order to write a log."""
    return make_order(number, "begin", places.container_id) | {
        "spool": places.spool,
        "folder": places.folder,
        "name": places.name,
        "at": [at.spool, *at.file] if at else None,
        "new": new,
    }


def parse_progress(value: Any) -> LogProgress | None:
    """What the writer says of how far a log is."""
    if value is None:
        return None
    (inode, offset, mark), file_inode, size = value
    return LogProgress(spool=(inode, offset, mark), file=(file_inode, size))
