"""What a handler is given besides the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crishim.events.hub import BACKLOG, Events
from crishim.rpc.event_messages import encode_event
from crishim.rpc.metrics_messages import MetricsEncoder
from crishim.rpc.ready import ReadyContainers, ReadyImages, ReadySandboxes
from crishim.rpc.stats_messages import StatsMessages
from crishim.stats.service import Stats

if TYPE_CHECKING:
    from crishim.runtime.core import Runtime
    from crishim.streaming.api import SessionURLs


@dataclass(frozen=True)
class Served:
    """The runtime that is served, and the messages kept ready for its objects."""

    runtime: Runtime
    sandboxes: ReadySandboxes
    containers: ReadyContainers
    images: ReadyImages
    stats: Stats
    figures: StatsMessages
    metrics: MetricsEncoder
    events: Events
    sessions: SessionURLs | None = None
    """Gives URLs to those who want a process's streams or connections; None: nobody serves them."""

    def end_streams(self) -> None:
        """End the streams that would last for ever, so that the server can stop."""
        self.events.close()

    async def close(self) -> None:
        """End what goes on in the background. To be called when no call is under way any more."""
        self.events.close()
        await self.stats.close()


def serve_from(
    runtime: Runtime,
    sessions: SessionURLs | None = None,
    *,
    stats: Stats | None = None,
    event_backlog: int = BACKLOG,
) -> Served:
    """A runtime with empty stores of ready messages, which follow its index from now on.

    `event_backlog`: bytes of events that a listener may leave unread.
    """
    sandboxes, containers = ReadySandboxes(runtime.index), ReadyContainers(runtime.index)
    return Served(
        runtime=runtime,
        sandboxes=sandboxes,
        containers=containers,
        images=ReadyImages(runtime.images),
        sessions=sessions,
        stats=stats or Stats(runtime),
        figures=StatsMessages(),
        metrics=MetricsEncoder(),
        events=Events(
            runtime.index,
            lambda event: encode_event(event, sandboxes, containers),
            loaded=lambda: runtime.link.loaded,
            backlog=event_backlog,
        ),
    )
