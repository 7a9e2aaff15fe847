"""`route_localnet` of an interface: whether packets from this host's loopback may be sent to containers behind it.

With it the kernel would also take packets from there to 127.0.0.0/8; the table's `guard` drops those.
"""

from __future__ import annotations

import contextlib
import os


def allow(interface: str) -> None:
    """Switch it on.  The guard must be in place.  Raises OSError."""
    _write(interface, "1")


def forbid(interface: str) -> None:
    """Switch it off; an interface that is gone is no error.  Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        _write(interface, "0")


def _write(interface: str, value: str) -> None:
    path = os.path.join("/proc/sys/net/ipv4/conf", interface, "route_localnet")
    with open(path, "r+", encoding="ascii") as file:
        if file.read().strip() != value:
            file.seek(0)
            file.write(value)
