"""Pressure stall information: `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and the same for `full`."""

from __future__ import annotations

import re

from crishim.stats.files import Kept
from crishim.stats.values import Pressure, Stall

_LINE = re.compile(rb"^(some|full) avg10=([\d.]+) avg60=([\d.]+) avg300=([\d.]+) total=(\d+)$", re.MULTILINE)


def read_pressures(files: Kept, folder: str) -> tuple[Pressure | None, Pressure | None, Pressure | None]:
    """A cgroup's, of processor, memory and io; None where the kernel has none or has it switched off."""
    return (
        files.understand_if_there(f"{folder}/cpu.pressure", parse_pressure),
        files.understand_if_there(f"{folder}/memory.pressure", parse_pressure),
        files.understand_if_there(f"{folder}/io.pressure", parse_pressure),
    )


def parse_pressure(text: bytes) -> Pressure | None:
    """The two lines; None without a line `some`."""
    stalls = {
        kind: Stall(int(total) * 1000, float(avg10), float(avg60), float(avg300))
        for kind, avg10, avg60, avg300, total in _LINE.findall(text)
    }
    some = stalls.get(b"some")
    return None if some is None else Pressure(some, stalls.get(b"full"))
