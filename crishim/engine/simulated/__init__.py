"""An engine without containers: a verified fake that ships, so that CRI can be served where no Docker is.

For: harnesses, scale tests with thousands of pods, tests of everything above the engine. It keeps names, ids, states,
images and events as Docker does (the same contract checks run on both), takes its time from a clock that a test may
move by hand, and fails on order. Deterministic: the same calls give the same ids. Not for: running anything. There is
no process, no namespace, no file system behind a container, and process ids are numbers that no kernel gives out.
"""

from __future__ import annotations

from crishim.engine.simulated.clock import Clock, RealClock, VirtualClock, settle
from crishim.engine.simulated.engine import SimulatedEngine
from crishim.engine.simulated.faults import Drop, Fail, Fault, Hang, Scripted, Slow

__all__ = [
    "Clock",
    "Drop",
    "Fail",
    "Fault",
    "Hang",
    "RealClock",
    "Scripted",
    "SimulatedEngine",
    "Slow",
    "VirtualClock",
    "settle",
]
