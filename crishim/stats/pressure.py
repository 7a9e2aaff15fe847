"""Pressure stall information: `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and the same for `full`."""

from __future__ import annotations

from crishim.stats.files import read_if_there
from crishim.stats.values import Pressure, Stall


def read_pressure(path: str) -> Pressure | None:
    """A cgroup's pressure file; None where the kernel has none or has it switched off."""
    text = read_if_there(path)
    return parse_pressure(text) if text else None


def parse_pressure(text: bytes) -> Pressure | None:
    """The two lines; None without a line `some`."""
    stalls = {}
    for line in text.splitlines():
        kind, *pairs = line.split()
        values = dict(pair.split(b"=", 1) for pair in pairs)
        stalls[kind] = Stall(
            total=int(values[b"total"]) * 1000,
            avg10=float(values[b"avg10"]),
            avg60=float(values[b"avg60"]),
            avg300=float(values[b"avg300"]),
        )
    some = stalls.get(b"some")
    return None if some is None else Pressure(some, stalls.get(b"full"))
