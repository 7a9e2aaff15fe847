"""Timed steps: one context manager per step feeds logs, metrics, traces and the timeline alike.

A `Call` is opened around one verb; `step(...)` inside it, in any task it starts, records what was done when. The
steps that waited for the engine are marked, so that our own share of a call is its time less theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar, Token
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


class Recording:
    """The block of one verb: its `Call` while it lasts. A class and no generator, as each read passes through it."""

    __slots__ = ("_record", "_sink", "_token")
    _token: Token[Call | None]

    def __init__(self, verb: str, sink: Sink) -> None:
        self._record = Call(verb, time.monotonic_ns())
        self._sink = sink

    def __enter__(self) -> Call:
        self._token = _current.set(self._record)
        return self._record

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        _current.reset(self._token)
        self._record.end = time.monotonic_ns()
        self._sink(self._record)


class Timing:
    """The block of one step; see `step`."""

    __slots__ = ("_engine", "_entry", "_name")
    _entry: Step | None

    def __init__(self, name: str, engine: bool) -> None:
        self._name = name
        self._engine = engine

    def __enter__(self) -> None:
        record = _current.get()
        if record is None:
            self._entry = None
        else:
            self._entry = Step(self._name, time.monotonic_ns(), engine=self._engine)
            record.steps.append(self._entry)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._entry is not None:
            self._entry.end = time.monotonic_ns()


def call(verb: str, sink: Sink) -> Recording:
    """Record the steps of one verb and hand them to `sink` at its end, whatever the outcome."""
    return Recording(verb, sink)


def step(name: str, *, engine: bool = False) -> Timing:
    """Record one step of the current call; outside any call it costs next to nothing."""
    return Timing(name, engine)
