"""What a handler is given besides the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crishim.rpc.ready import ReadyContainers, ReadyImages, ReadySandboxes

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
    sessions: SessionURLs | None = None
    """Gives URLs to those who want a process's streams or connections; None: nobody serves them."""


def serve_from(runtime: Runtime, sessions: SessionURLs | None = None) -> Served:
    """A runtime with empty stores of ready messages, which follow its index from now on."""
    return Served(
        runtime=runtime,
        sandboxes=ReadySandboxes(runtime.index),
        containers=ReadyContainers(runtime.index),
        images=ReadyImages(runtime.images),
        sessions=sessions,
    )
