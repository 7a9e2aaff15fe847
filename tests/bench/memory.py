"""Memory of all processes of crishim together."""

from __future__ import annotations

from tests.bench.figures import Figure, summarize
from tests.bench.serve import Served
from tests.bench.verbs import live_through


def idle(served: Served) -> Figure:
    """Right after the start, nothing asked yet but its status."""
    return summarize("memory, idle", [served.rss()], unit="MB", must=85.0, note="RSS")


def growth(served: Served, image: str, pods: int) -> Figure:
    """From half of the pods to all of them, each created and removed."""
    for number in range(pods // 2):
        live_through(served, image, number)
    before = served.rss()
    for number in range(pods // 2, pods):
        live_through(served, image, number)
    after = served.rss()
    note = f"RSS {before:.1f} to {after:.1f} MB, pods {pods // 2} to {pods}"
    return summarize("memory, growth", [after - before], unit="MB", must=1.0, note=note)
