"""host-local: gives out addresses of ranges, and remembers in a folder on this host whose they are."""

from __future__ import annotations

from cni.plugins.host_local.plugin import HostLocal

__all__ = ["HostLocal"]
