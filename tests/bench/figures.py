"""Figures and what they are measured on."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tests.conformance import results


@dataclass(frozen=True)
class Figure:
    """One measured thing: a name, its samples' summary, the unit, and what is demanded (0: nothing).

    `must` is what the median may be at most, `least` what it must be at least.
    """

    name: str
    median: float
    p90: float
    unit: str
    samples: int
    must: float = 0.0
    note: str = ""
    section: str = ""
    """The part of the table that it stands in."""
    least: float = 0.0

    @property
    def missed(self) -> bool:
        """Whether what is demanded is not met."""
        return bool((self.must and self.median > self.must) or (self.least and self.median < self.least))


def summarize(
    name: str, samples: Sequence[float], unit: str = "ms", must: float = 0.0, note: str = "", least: float = 0.0
) -> Figure:
    """Median and ninetieth percentile of the samples; where more is better, the one that nine tenths reach."""
    ordered = sorted(samples, reverse=bool(least))
    p90 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))]
    return Figure(
        name, round(statistics.median(ordered), 3), round(p90, 3), unit, len(ordered), must, note, least=least
    )


def machine(engine_version: str, load: float) -> dict[str, object]:
    """What the figures depend on.  ``load``: the machine's average of a minute before the run, of what else it had."""
    versions = {name: metadata.version(name) for name in ("grpcio", "aiodocker", "aiohttp", "protobuf", "pydantic")}
    return {
        "kernel": platform.release(),
        "processors": len(Path("/proc/cpuinfo").read_text().split("processor\t")) - 1,
        "python": platform.python_version(),
        "load": round(load, 1),
        "engine": engine_version,
        "packages": versions,
        "commit": results.commit(),
    }
