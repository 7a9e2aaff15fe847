"""Removing the bridge, which outlives its pods while the server runs."""

from __future__ import annotations

from cni.plugins.rtnl import link
from cni.plugins.rtnl.route import Route
from crishim.network.embedded.conf import BRIDGE


def remove_unused_bridge() -> bool:
    """Remove the bridge unless it has ports; True when it is gone.  Blocks.  Raises OSError."""
    with Route() as route:
        found = link.find(route, BRIDGE)
        if found is None:
            return True
        if link.ports(route, found.index):
            return False
        route.change([link.delete(found.index)])
    return True
