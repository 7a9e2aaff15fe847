"""Logging to standard error: text for people, or one JSON object per line.

A record may carry `extra={"ids": {"sandbox": …}}`; both forms show them. Not for: deciding what is logged.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from typing import Literal, TextIO

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {
    ord("\n"): "\\n",
    ord("\t"): "\\t",
    ord("\r"): "\\r",
}
"""What a caller's text could use to forge lines or to steer a terminal."""


def set_up(level: str, form: Literal["text", "json"], stream: TextIO | None = None) -> None:
    """Send crishim's records of this level and above to `stream` (standard error), and other libraries' warnings."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for package in ("crishim", "cni"):
        logging.getLogger(package).setLevel(level.upper())


def _time(created: float) -> str:
    whole = int(created)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{int((created - whole) * 1000):03d}Z"


def _ids(record: logging.LogRecord) -> dict[str, str]:
    return dict(getattr(record, "ids", None) or {})


class TextFormatter(logging.Formatter):
    """`TIME LEVEL LOGGER: MESSAGE key=value …`, then the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        ids = "".join(f" {name}={value}" for name, value in _ids(record).items())
        text = f"{record.getMessage()}{ids}".translate(_CONTROL)
        line = f"{_time(record.created)} {record.levelname} {record.name.removeprefix('crishim.')}: {text}"
        if record.exc_info:
            line += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        return line.encode("utf-8", "backslashreplace").decode()


class JsonFormatter(logging.Formatter):
    """One object per line: time, level, logger, message, the ids by their names, `traceback` if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_ids(record),
        }
        if record.exc_info:
            entry["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(entry, default=str)
