"""bandwidth: limits what a container receives and sends, by token buckets on the host's side."""

from __future__ import annotations

from cni.plugins.bandwidth.plugin import Bandwidth

__all__ = ["Bandwidth"]
