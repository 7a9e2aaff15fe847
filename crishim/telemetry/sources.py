"""What is looked at when somebody asks: the rooms' plain counters, and what is counted for telemetry alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crishim.aiokit.steps import Call
from crishim.telemetry.durations import Operations
from crishim.telemetry.loop_lag import LoopLag

if TYPE_CHECKING:
    from crishim.events.hub import Events
    from crishim.runtime.core import Runtime


class Calls:
    """A sink of the RPCs' timed steps (`crishim.aiokit.steps.Sink`)."""

    def __init__(self) -> None:
        self.operations = Operations()
        self.own_seconds: dict[str, float] = {}
        """By RPC: its time less its waits for the engine."""

    def __call__(self, call: Call) -> None:
        """Note one call."""
        self.operations.note(call.verb, (call.end - call.start) / 1e9, call.outcome)
        self.own_seconds[call.verb] = self.own_seconds.get(call.verb, 0.0) + call.own_ns() / 1e9


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What is counted for telemetry alone, from the server's first moment."""

    calls: Calls = field(default_factory=Calls)
    engine: Operations = field(default_factory=Operations)
    network: Operations = field(default_factory=Operations)
    loop: LoopLag = field(default_factory=LoopLag)


@dataclass(frozen=True, kw_only=True)
class Sources:
    """All that is told of."""

    version: str
    counted: Counted
    runtime: Runtime
    events: Events
    under_way: Mapping[str, int]
    """RPC to calls that have begun and not ended."""
    threads: Callable[[], int]
    """Work that waits for a thread."""
    stopping: Callable[[], bool]
    """Whether the server was asked to end."""
