"""bridge: a veth pair between the container and a bridge of the host, with addresses, routes, and a way out."""

from __future__ import annotations

from cni.plugins.bridge.plugin import Bridge

__all__ = ["Bridge"]
