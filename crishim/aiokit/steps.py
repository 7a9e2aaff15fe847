"""Timed steps: one context manager per step feeds logs, metrics, traces and the timeline alike.

A `Call` is opened around one verb; `step(...)` inside it, in any task it starts, records what was done when. The
steps that waited for the engine are marked, so that our own share of a call is its time less theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(slots=True)
class Step:
    """One step: name, start and end in nanoseconds of the monotonic clock, whether it waited for the engine."""

    name: str
    start: int
    end: int = 0
    engine: bool = False


@dataclass(slots=True)
class Call:
    """One verb's steps. `outcome` is the error's kind, empty for success."""

    verb: str
    start: int
    end: int = 0
    outcome: str = ""
    steps: list[Step] = field(default_factory=list)

    def engine_ns(self) -> int:
        """Nanoseconds in which at least one step waited for the engine."""
        total, reached = 0, self.start
        for step in sorted((s for s in self.steps if s.engine), key=lambda s: s.start):
            # A step that outlives the call (work that is completed in the background) counts as far as the call went.
            start, end = max(step.start, reached), min(step.end or self.end, self.end)
            if end > start:
                total += end - start
                reached = end
        return total

    def own_ns(self) -> int:
        """Nanoseconds of the call that were our own."""
        return self.end - self.start - self.engine_ns()


_current: ContextVar[Call | None] = ContextVar("crishim_call", default=None)
Sink = Callable[[Call], None]


@contextmanager
def call(verb: str, sink: Sink) -> Iterator[Call]:
    """Record the steps of one verb and hand them to `sink` at its end, whatever the outcome."""
    record = Call(verb, time.monotonic_ns())
    token = _current.set(record)
    try:
        yield record
    finally:
        _current.reset(token)
        record.end = time.monotonic_ns()
        sink(record)


@contextmanager
def step(name: str, *, engine: bool = False) -> Iterator[None]:
    """Record one step of the current call; outside any call it costs next to nothing."""
    record = _current.get()
    if record is None:
        yield
        return
    entry = Step(name, time.monotonic_ns(), engine=engine)
    record.steps.append(entry)
    try:
        yield
    finally:
        entry.end = time.monotonic_ns()
