"""The timeline: each call with its timed steps as one JSON line of a file, for people, plots and benchmarks."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from crishim.aiokit.steps import Call


class Timeline:
    """Appends to a file, which is made if need be. A line is there before its call's answer is."""

    def __init__(self, path: Path) -> None:
        """Raises OSError if the file cannot be opened."""
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)

    def __call__(self, call: Call) -> None:
        """Write one call. A line is one small write to the page cache, so it may be done on the loop."""
        os.write(self._file, json.dumps(make_entry(call, time.time_ns())).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def make_entry(call: Call, now: int) -> dict[str, object]:
    """The entry of a call that ended at `now`, nanoseconds since the epoch.

    Times are milliseconds, steps' `at_ms` from the call's start. `own_ms` is the call without its waits for the engine.
    """
    return {
        "start_ns": now - (call.end - call.start),
        "verb": call.verb,
        "outcome": call.outcome or "OK",
        "ms": _ms(call.end - call.start),
        "own_ms": _ms(call.own_ns()),
        "steps": [
            {
                "name": step.name,
                "at_ms": _ms(step.start - call.start),
                "ms": _ms((step.end or call.end) - step.start),
                "engine": step.engine,
            }
            for step in call.steps
        ],
    }


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 3)
