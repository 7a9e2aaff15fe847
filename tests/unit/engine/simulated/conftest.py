"""An engine whose clock stands still until a test moves it."""

from __future__ import annotations

import pytest

from crishim.engine.simulated import SimulatedEngine, VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def engine(clock: VirtualClock) -> SimulatedEngine:
    return SimulatedEngine(clock=clock)
