"""What a handler is given besides the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crishim.rpc.ready import ReadyContainers, ReadyImages, ReadySandboxes
from crishim.stats.service import Stats

if TYPE_CHECKING:
    from crishim.runtime.core import Runtime


@dataclass(frozen=True)
class Served:
    """The runtime that is served, and the messages kept ready for its objects."""

    runtime: Runtime
    sandboxes: ReadySandboxes
    containers: ReadyContainers
    images: ReadyImages
    stats: Stats

    async def close(self) -> None:
        """End what goes on in the background. To be called when no call is under way any more."""
        await self.stats.close()


def serve_from(runtime: Runtime, *, stats: Stats | None = None) -> Served:
    """A runtime with empty stores of ready messages, which follow its index from now on."""
    return Served(
        runtime=runtime,
        sandboxes=ReadySandboxes(runtime.index),
        containers=ReadyContainers(runtime.index),
        images=ReadyImages(runtime.images),
        stats=stats or Stats(runtime),
    )
