"""What the C library's allocator does with large blocks: they go back to the kernel as soon as they are free.

By itself glibc learns from each large block that is freed to keep the next ones (mallopt(3), M_MMAP_THRESHOLD): after a
few answers of 16 MiB the process holds on to a hundred megabytes that nothing uses, and how many is a matter of chance.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt (malloc.h of glibc)."""
_LARGE = 4 << 20
"""Bytes from which on a block is mapped by itself. What is read from sockets stays well below: mapping costs."""
_SPARE = 2 << 20
"""Free bytes at the heap's end that are kept for what comes next."""


def give_back_large_blocks() -> bool:
    """Fix both thresholds; False where the C library has none (musl), which keeps no large blocks anyway."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGE)) and bool(mallopt(_M_TRIM_THRESHOLD, _SPARE))
