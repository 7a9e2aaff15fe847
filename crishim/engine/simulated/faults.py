"""Failures to order: what shall go wrong, in which call, how often."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from crishim.errors import EngineUnavailable


class Fault(ABC):  # noqa: B024 - a closed family, matched by class
    """Something that goes wrong in one call."""


@dataclass(frozen=True, slots=True)
class Fail(Fault):
    """The engine refuses: the error is raised and nothing happens. In a pull it comes inside the stream."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Hang(Fault):
    """No answer, ever: until the caller gives up, the engine goes down, or it is closed. Nothing happens."""

    after_effect: bool = False
    """True: it did happen, only the answer never comes."""


@dataclass(frozen=True, slots=True)
class Drop(Fault):
    """It happens, but the connection breaks before the answer."""

    error: Exception = field(default_factory=lambda: EngineUnavailable("the engine's answer was lost on its way"))


@dataclass(frozen=True, slots=True)
class Slow(Fault):
    """It takes so many seconds of the engine's clock before anything happens."""

    seconds: float


Match = Callable[..., bool]


class Scripted:
    """One line of the script: a fault, the calls it is meant for, and how often it struck."""

    def __init__(self, fault: Fault, times: int | None, match: Match | None) -> None:
        self.fault = fault
        self.hits = 0
        """How many calls it has struck so far."""
        self._times = times
        self._match = match

    def __repr__(self) -> str:
        return f"<Scripted {self.fault!r} hits={self.hits} of {self._times or 'all'}>"

    @property
    def spent(self) -> bool:
        """Whether it will strike no more."""
        return self._times is not None and self.hits >= self._times

    def cancel(self) -> None:
        """Strike no more."""
        self._times = self.hits

    def strikes(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether it strikes a call with these arguments; counts it if so."""
        if self.spent or (self._match is not None and not self._match(*args, **kwargs)):
            return False
        self.hits += 1
        return True


class Script:
    """The lines for all methods. In one method the first line that fits strikes, in the order they were written."""

    def __init__(self) -> None:
        self._lines: dict[str, list[Scripted]] = {}

    def add(self, method: str, fault: Fault, times: int | None, match: Match | None) -> Scripted:
        """Write a line."""
        line = Scripted(fault, times, match)
        self._lines.setdefault(method, []).append(line)
        return line

    def take(self, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Fault | None:
        """The fault that strikes this call, if any."""
        if not self._lines:
            return None
        lines = [line for line in self._lines.get(method, ()) if not line.spent]
        if lines:
            self._lines[method] = lines
        else:
            self._lines.pop(method, None)
        return next((line.fault for line in lines if line.strikes(args, kwargs)), None)
