"""Large blocks are given back, in a process of its own: the setting is for good."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

_KEEPS = """
import os, sys
from crishim.allocator import give_back_large_blocks

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

if sys.argv[1] == "set":
    assert give_back_large_blocks()
pins = []
before = resident()
for _ in range(8):
    large = [bytes([1]) * (16 << 20) for _ in range(3)]
    pins.append(bytes(100_000))  # lies above them in the heap, if they are there
    large.clear()
print((resident() - before) >> 20)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="this C library keeps no large blocks")
def test_large_blocks_go_back_to_the_kernel() -> None:
    kept = {
        how: int(subprocess.run([sys.executable, "-c", _KEEPS, how], capture_output=True, check=True).stdout)
        for how in ("set", "left")
    }
    assert kept["set"] < 8, kept
    assert kept["left"] > 2 * kept["set"], "the C library does it by itself: then crishim.allocator can go"
