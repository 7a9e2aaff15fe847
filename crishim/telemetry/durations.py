"""Durations and failures of operations, as plain numbers: what a histogram is made of when somebody looks."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

from crishim.errors import CRIError, Kind

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds: upper ends of the buckets. A read takes less than a millisecond, a pull a minute."""


class Durations:
    """How many took how long."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        """By bucket; the last is for what took longer than every bound."""
        self.seconds = 0.0
        """All together."""

    def note(self, seconds: float) -> None:
        """One that took so long."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def buckets(self) -> list[tuple[str, int]]:
        """As Prometheus counts: up to each bound, `+Inf` at the end."""
        total, told = 0, []
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self.counts, strict=True):
            total += count
            told.append((bound, total))
        return told


class Operations:
    """Durations by the operation's name, and failures by name and kind (`crishim.errors.Kind`)."""

    def __init__(self) -> None:
        self.durations: dict[str, Durations] = {}
        self.failures: dict[tuple[str, str], int] = {}

    def note(self, name: str, seconds: float, failure: str = "") -> None:
        """One operation that has ended; `failure`: the kind, empty for success."""
        durations = self.durations.get(name)
        if durations is None:
            durations = self.durations[name] = Durations()
        durations.note(seconds)
        if failure:
            self.failures[name, failure] = self.failures.get((name, failure), 0) + 1

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Note the block as one operation."""
        began = time.monotonic()
        failure = ""
        try:
            yield
        except BaseException as error:
            failure = kind_of(error)
            raise
        finally:
            self.note(name, time.monotonic() - began, failure)


def kind_of(error: BaseException) -> str:
    """The kind of what was raised, in the words of gRPC's codes."""
    kind = Kind.CANCELLED if isinstance(error, asyncio.CancelledError) else Kind.INTERNAL
    if isinstance(error, CRIError):
        kind = error.kind
    return kind.value
