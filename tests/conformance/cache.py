"""The folder for what takes long to make: built tools, unpacked engines, results."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from tests.env.cache import CACHE


def folder(*parts: str) -> Path:
    """A path below the cache: CRISHIM_CACHE, or ``.cache`` in the checkout.  Nothing is made."""
    return Path(os.environ.get("CRISHIM_CACHE") or CACHE).absolute().joinpath(*parts)


@contextlib.contextmanager
def alone(what: Path) -> Iterator[None]:
    """Hold the lock for making ``what``, so that two runs do not make it into each other; makes its parent folder."""
    what.parent.mkdir(parents=True, exist_ok=True)
    with what.with_name(f".{what.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
