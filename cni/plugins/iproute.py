"""pyroute2's socket as the plugins use it: its errors are ours, its lists are whole, and it is closed.

Importing this module loads pyroute2 (11 MB and some 0.35 s of processor time), so it is imported where it is needed,
and never for attaching or detaching an ordinary pod.  pyroute2 runs an event loop of its own inside each socket: make
and use one in a plugin's thread, never on a thread whose loop runs.  `netns=` is not used: pyroute2 forks for it.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from typing import Any

from pyroute2.iproute.linux import IPRoute
from pyroute2.netlink.exceptions import NetlinkDumpInterrupted
from pyroute2.netlink.exceptions import NetlinkError as Refusal

from cni.plugins.nft.netlink import NetlinkError

__all__ = ["IPRoute", "Refusal", "listed", "refusals"]

_DUMPS = 8  # tries while what is listed changes


@contextlib.contextmanager
def refusals(*done: int, what: str = "the network") -> Iterator[None]:
    """Raise what pyroute2 raises as NetlinkError; an errno among `done` means that there is nothing to do."""
    try:
        yield
    except NetlinkDumpInterrupted as interrupted:
        raise NetlinkError(errno.EINTR, what) from interrupted
    except Refusal as refusal:
        if refusal.code not in done:
            raise NetlinkError(refusal.code, what) from refusal


def listed(ask: Callable[[], Any], what: str = "the network") -> list[Any]:
    """Ask for a list, again when it changed while it was told.  Raises NetlinkError."""
    for _ in range(_DUMPS - 1):
        try:
            with refusals(what=what):
                return list(ask())
        except NetlinkError as refusal:
            if refusal.errno != errno.EINTR:
                raise
    with refusals(what=what):
        return list(ask())
