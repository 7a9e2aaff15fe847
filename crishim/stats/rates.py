"""How much of a core was in use of late: from two samples of a counter, whoever took them."""

from __future__ import annotations

import threading
from collections.abc import Container

SECOND = 10**9
_NEAREST = SECOND // 10
"""Nanoseconds between two samples below which their difference says nothing."""
_SPACING = SECOND
"""Nanoseconds after which a sample takes the place of the one before."""
TOO_OLD = 60 * SECOND
"""Nanoseconds after which a sample tells of the past rather than of late."""


class Rates:
    """Samples by container or pod. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: dict[str, list[tuple[int, int, int]]] = {}

    def __len__(self) -> int:
        return len(self._samples)

    def note(self, key: str, life: int, time: int, counter: int) -> int | None:
        """Take a sample; returns billionths per second since an earlier one, None if there is none.

        `life` tells lives of one object apart, as a restart begins a new counter. `time` in nanoseconds.
        """
        with self._lock:
            samples = self._samples.get(key)
            if not samples or samples[-1][0] != life or counter < samples[-1][2]:
                self._samples[key] = [(life, time, counter)]
                return None
            _, newest, _ = samples[-1]
            if time - newest >= _SPACING:
                samples.append((life, time, counter))
                del samples[:-2]
            _, then, before = samples[0]
        if time - then < _NEAREST or time - then > TOO_OLD:
            return None
        return (counter - before) * SECOND // (time - then)

    def age(self, key: str, time: int) -> int:
        """Nanoseconds since the newest sample; a long time where there is none."""
        with self._lock:
            samples = self._samples.get(key)
            return time - samples[-1][1] if samples else TOO_OLD

    def keep(self, keys: Container[str]) -> None:
        """Forget all others: those that were noted by a look which came too late."""
        with self._lock:
            self._samples = {key: samples for key, samples in self._samples.items() if key in keys}

    def forget(self, key: str) -> None:
        """The object is gone."""
        with self._lock:
            self._samples.pop(key, None)
