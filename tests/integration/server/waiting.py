"""Waiting for what must come to be, never for time to pass."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], what: str, limit: float = 30.0) -> T:
    """The first true answer of `condition`. Raises AssertionError after `limit` seconds, naming `what`."""
    end = time.monotonic() + limit
    while not (answer := condition()):
        assert time.monotonic() < end, f"did not come to be within {limit:g} s: {what}"
        time.sleep(0.02)
    return answer


def settles(look: Callable[[], list[str]], limit: float = 20.0) -> list[str]:
    """What `look` still finds after `limit` seconds; empty as soon as it finds nothing."""
    end = time.monotonic() + limit
    while found := look():
        if time.monotonic() > end:
            return found
        time.sleep(0.05)
    return []


def fetch(url: str) -> str:
    """A page, once somebody serves it."""

    def get() -> str:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    return until(get, url)
